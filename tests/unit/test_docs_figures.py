"""Figures on the pages are those of the kept results: whoever measures again writes the page again."""

import json
import re

import pytest

from pages import DOCS, ROOT


def kept(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def page(name):
    return " ".join((DOCS / f"{name}.md").read_text(encoding="utf-8").split())


def test_how_far_renyi_accounting_is_off():
    rows = kept("accounting")["settings"].values()
    above = [100 * (row["opacus"]["epsilon"] / row["epsilon"]["upper"] - 1) for row in rows]
    assert f"{min(above):.1f} to {max(above):.1f} % above the truth in {len(above)} usual settings" in page("pitfalls")


@pytest.mark.parametrize("table", kept("tables")["tables"])
def test_what_privacy_costs_on_tables(table):
    row = kept("tables")["tables"][table]
    shown = re.findall(r"[\d.]+", re.search(rf"\| {table} \|([^a-z]*)", page("tables"))[1].replace(",", ""))
    plain = max(row["pipeline"], row["encoded"])
    real = (row["records"], row["splits"], row["private"], row["descent"], plain, row["behind"])
    assert [float(text) for text in shown[: len(real)]] == pytest.approx(real, abs=0.00061)


def test_votes_of_published_teachers():
    for row in kept("pate")["rows"]["votes"]["rows"][:3]:
        papers = [row[f"papers, {side} (rests on a private number)"] for side in ("dependent", "independent")]
        shown = f"{papers[0]:.3f}, {papers[1]:.3f} | {row['joint (private)']:.3f} | {row['claim']:.3f} |"
        assert f"{row['queries']}, {row['delta']:.0e}".replace("e-0", "e-") + f" | {shown}" in page("pate")


def test_bits_that_sums_give_away():
    found = kept("disclosure")["reconstruction"]
    text = page("disclosure")
    assert f"With {found['people']} people, {found['queries']:,} queries and {found['seeds']} seeds" in text
    assert f"gets {100 * found['bounded']['mean']:.1f} % of the bits right" in text
    assert f"(at least {100 * found['bounded']['least']:.1f} %)" in text
    assert f"from the private sums {100 * found['laplace']['mean']:.1f} %" in text


def test_how_fast_tables_are_asked():
    found, text = kept("query"), page("queries")
    both, five, shared = (found[name]["cpu_seconds"] for name in ("both", "five", "both, portable"))
    assert f"| count and sum | {both:.1f} |" in text
    assert f"| five aggregates | {five:.1f} |" in text
    assert f"(`portable=True`) | {shared:.1f} |" in text
    peer = [found["opendp"][name]["cpu_seconds"] for name in ("count", "sum")]
    assert f"count and then sum | {peer[0]:.1f} + {peer[1]:.1f} |" in text
    assert f"costs {sum(peer) / both:.1f} times as much" in text


def test_how_long_a_table_takes_to_its_page():
    assert f"take {kept('front-door')['total']:.0f} s on two cores" in page("tables")


def test_accuracy_of_private_linear_models():
    rows = {(row["table"], row["method"], row.get("epsilon")): row for row in kept("erm")["rows"]}
    accuracy = [rows["adult", "PrivateLogisticRegression, auto", epsilon]["accuracy"] for epsilon in (0.1, 1.0, 3.0)]
    plain = rows["adult", "not private", None]["accuracy"]
    shown = " | ".join(f"{100 * value:.1f} %" for value in (*accuracy, plain))
    assert f"| Adult, `PrivateLogisticRegression` | {shown} |" in page("erm")


def test_attacks_behind_an_interface():
    row, text = kept("membership-service")["rows"]["means"][0]["rate at 1 %"], page("attacks")
    top, full = row["API, top 3 of 3 decimals, 1 query"], row["full access"]
    assert f"gave {top:.3f} of members at 1 % false positives; full access gave {full:.3f}" in text
    assert f"Labels alone with ten queries gave {row['API, labels only, 10 queries']:.2f}" in text
