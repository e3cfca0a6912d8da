"""The small parts of a report: nodes, numbers in words, tables, events in words, thinning, static charts."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import report_samples as samples
from tacit.core import Estimate, Event, Verdict
from tacit.core.events import Compose, Gaussian, Laplace, NonPrivate, NoOp, Poisson, RandomizedResponse, Repeat
from tacit.core.fault import Fault
from tacit.core.sentence import allowed
from tacit.core.shown import significant
from tacit.reports import card, comparison, svg, tables
from tacit.reports.card import BARE
from tacit.reports.node import Node, count, likely, measured, percent, rounded_percent, thousandths
from tacit.reports.roc_chart import roc_chart, thinned
from tacit.reports.strip_chart import strip_chart
from tacit.reports.subject import subjects_of
from tacit.reports.table import Cell, Column, Table
from tacit.reports.words import event_words, verdict_title, why, worst


def test_a_node_knows_its_place_and_its_full_value() -> None:
    node = Node([{"a/b": {"~": 0.123456789012345678}}], "")[0]["a/b"]["~"]
    assert node.path == "/0/a~1b/~0"
    assert node.number(significant) == (
        '<span class="n" data-value="0.12345678901234568" data-path="/0/a~1b/~0">0.123</span>'
    )
    assert "no finite value" in Node(None, "/x").number(significant)


@pytest.mark.parametrize(
    ("style", "value", "text"),
    [
        (significant, 4.3771780, "4.38"),
        (significant, 1e-5, "0.00001"),
        (significant, 3e-9, "3e-9"),
        (significant, 123456.0, "123000"),
        (significant, 4.2e12, "4.2e12"),
        (thousandths, 0.62, "0.620"),
        (thousandths, 0.99996, "0.99996"),
        (thousandths, 1.0, "1.000"),
        (percent, 0.001, "0.1 %"),
        (percent, 1.0, "100 %"),
        (measured, 0.54, "54.0 %"),
        (measured, 0.0, "0 %"),
        (measured, 1.0, "100 %"),
        (measured, 0.9999, "99.99 %"),
        (measured, 3.3e-7, "0.000033 %"),
        (rounded_percent, 0.95, "95 %"),
        (rounded_percent, 0.9999999999, "99.99999999 %"),
        (rounded_percent, 1 - 0.05 / 6, "99.167 %"),
        (rounded_percent, 0.975, "97.5 %"),
        (rounded_percent, 1.0, "100 %"),
        (likely, 5.12e-17, "0 %"),
        (likely, 0.979, "97.9 %"),
        (count, 12345, "12,345"),
    ],
)
def test_numbers_are_written_for_reading(style: object, value: float, text: str) -> None:
    assert style(value) == text  # type: ignore[operator]


def test_a_table_gives_the_file_full_precision_and_no_formula() -> None:
    cells = [Cell.words("=SUM(A1)"), Cell(Markup("1 to 2"), (1 / 3, None))]
    table = Table("t", "T", [Column("A", ("a",)), Column("B", ("lower", "upper"))], [cells])
    scheme, content = table.href.split(",", 1)
    assert scheme == "data:text/csv;charset=utf-8"
    assert list(csv.reader(io.StringIO(unquote(content)))) == [
        ["a", "lower", "upper"],
        ["'=SUM(A1)", "0.3333333333333333", ""],
    ]


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_every_row_of_every_table_fits_its_columns(name: str) -> None:
    (subject,) = subjects_of([samples.SAMPLES[name]()])
    found = [tables.bounds([subject]), tables.rates(subject), tables.attacks(subject), tables.demonstrations(subject)]
    found += [tables.controls(subject, public=public) for public in (False, True)]
    for table in [*found, comparison.comparison_table([subject, subject])]:
        width = sum(len(column.names) for column in table.columns)
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert sum(len(cell.values) for cell in row) == width


def test_a_claim_without_an_event_is_itself_to_be_believed() -> None:
    stated, proven = subjects_of([samples.bare(), samples.private()])
    assert BARE in dict(card.claim_rows(stated))["What must be believed"]
    assert BARE not in dict(card.claim_rows(proven))["What must be believed"]


@pytest.mark.parametrize("fpr", [0.0, 1e-6, 0.00123, 0.01, 0.5, 1.0])
def test_the_limit_shown_is_the_limit_the_sentence_uses(fpr: float) -> None:
    (subject,) = subjects_of([samples.private()])
    node = subject.allowed(fpr)
    assert node is not None
    assert node.value == allowed(samples.private().claim, fpr)  # type: ignore[arg-type]


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=400, unique=True).map(sorted),
    st.integers(min_value=5, max_value=120),
)
def test_thinning_keeps_ends_order_and_number(rates: list[float], most: int) -> None:
    points = [(rate, index) for index, rate in enumerate(rates)]
    kept = thinned(points, most)
    assert len(kept) <= max(most, 2)
    assert kept == sorted(set(kept) & set(points))
    assert {points[0], points[-1]} <= set(kept)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Gaussian(1.5), ["Gaussian noise of", "1.5"]),
        (Laplace(2.0), ["Laplace noise of", "2"]),
        (RandomizedResponse(1.0, 4), ["randomized response", "4", "categories"]),
        (NonPrivate(), ["without protection"]),
        (NoOp(), ["nothing is released"]),
        (Repeat(Poisson(0.01, Gaussian(1.1)), 1000), ["1,000", "steps", "1 %", "Poisson sampling", "1.1"]),
        (Compose((Gaussian(1.0), Laplace(1.0))), ["Gaussian", "; then ", "Laplace"]),
    ],
)
def test_events_are_told_in_words(event: Event, words: list[str]) -> None:
    text = Markup(event_words(event, Node(event.to_json(), "/e"))).striptags()
    assert [word for word in words if word not in text] == []


def test_an_event_without_words_is_named_with_its_parameters() -> None:
    event = Repeat(Gaussian(1.1), 7)
    text = Markup(event_words.dispatch(Event)(event, Node(event.to_json(), "/e"))).striptags()
    assert text == "Repeat with steps 7 of Gaussian noise of 1.1 times the largest contribution (Euclidean norm)"


def test_a_consistent_claim_is_supported_only_where_a_fault_would_probably_have_been_refuted() -> None:
    unknown = samples.private().with_(caught=())
    likely = unknown.with_(caught=(Fault("no noise", Estimate(0.9, 0.8, 0.95, 0.95, 100)), Fault("no clipping")))
    unlikely = unknown.with_(caught=(Fault("no noise", Estimate(0.9, 0.3, 0.95, 0.95, 100)),))
    weak = unknown.with_(caught=(Fault("no noise", Estimate(0.05, 0.0, 0.1, 0.95, 100)),))
    assert unknown.verdict is likely.verdict is weak.verdict is Verdict.CONSISTENT
    assert "supports the claim against the faults" in why(likely)
    assert not any("supports" in why(other) for other in (unknown, unlikely, weak))
    assert "is not known" in why(unknown)
    assert "no usual fault that it would probably have refuted" in why(weak)


def test_a_chance_with_a_wide_interval_is_not_shown_by_its_middle() -> None:
    """The page said 100 % where the interval began at 1 %; the command said that it is not known well."""
    wide, known = Estimate(0.999, 0.014, 1.0, 0.95, 39), Estimate(0.9, 0.8, 0.95, 0.95, 100)
    model = samples.private().with_(caught=(Fault("no noise", wide), Fault("no clipping", known)))
    table = tables.caught(subjects_of([model])[0])
    assert table is not None
    shown = [row[1].html.striptags() for row in table.rows]
    assert shown == ["not known well", "90 %"]
    assert [row[1].values for row in table.rows] == [(0.999,), (0.9,)]  # the file has it
    assert "1.4" in table.rows[0][2].html


def test_why_tells_apart_what_no_audit_has_shown() -> None:
    kinds = [samples.failed_control(), samples.uninformative(), samples.bare(), samples.trained()]
    assert len({why(kind) for kind in kinds}) == 4
    assert [verdict_title(kind) for kind in kinds[2:]] == ["Claimed, untested", "Proven, untested"]
    assert "proven" in why(samples.trained())


def test_the_worst_verdict_is_the_one_not_to_miss() -> None:
    assert worst([Verdict.NO_CLAIM, Verdict.CONSISTENT]) is Verdict.CONSISTENT
    assert worst([Verdict.CONSISTENT, Verdict.UNINFORMATIVE]) is Verdict.UNINFORMATIVE
    assert worst([Verdict.CONSISTENT, Verdict.UNTESTED]) is Verdict.UNTESTED
    assert worst(list(Verdict)) is Verdict.REFUTED


def test_leakage_is_compared_at_a_rate_every_sample_supports() -> None:
    large, small = samples.private(), samples.plain()
    small = small.with_(measurements=(samples.measurement("loss", 1.0, members=400),))
    both = subjects_of([large, small])
    assert comparison.common_rate(both) == 0.01
    assert comparison.common_rate(subjects_of([samples.bare(), samples.bare()])) is None
    found = comparison.strongest(both[0], 0.01)
    assert found is not None
    lowers = [row.lower for item in large.measurements for fpr, row in item.tpr_at_fpr if fpr == 0.01]
    assert found[1]["lower"].value == max(lowers)


def test_the_strip_breaks_the_bar_where_it_passes_the_claim() -> None:
    evidence = samples.refuted()
    chart = strip_chart(subjects_of([evidence]))
    assert chart is not None
    claim, shown = evidence.claim.bound.epsilon, evidence.lower.bound.epsilon  # type: ignore[union-attr]
    assert [(part["part"], part["start"], part["end"]) for part in chart.data["parts"]] == [
        ("within", 0.0, claim),
        ("beyond", claim, shown),
    ]


def test_the_strip_says_where_the_audit_ended_and_not_the_leak() -> None:
    evidence = samples.plain()
    item = evidence.demonstrations[0]
    top = replace(item, attainable=item.bound.epsilon)
    chart = strip_chart(subjects_of([evidence.with_(demonstrations=(top,)), samples.private()]))
    assert chart is not None
    assert [row["limit_text"] for row in chart.data["rows"]] == ["the limit of this audit", ""]
    assert [series.look for series in chart.series] == ["shown", "ceiling", "attainable", "claim"]
    assert "the limit of this audit" in chart.static("narrow")


def test_an_attainable_bound_far_away_does_not_push_the_others_together() -> None:
    evidence = samples.private()
    far = replace(evidence.demonstrations[0], attainable=40.0)
    chart = strip_chart(subjects_of([evidence.with_(demonstrations=(far,)), samples.plain()]))
    assert chart is not None
    assert [row["far"] for row in chart.data["rows"]] == [True, False]
    assert "attainable 40" in chart.static("wide")
    end = chart.specs["linear"]["layer"][1]["encoding"]["x"]["scale"]["domain"][1]
    assert end < 3 * evidence.claim.bound.epsilon  # type: ignore[union-attr]


def test_static_charts_are_checked_drawings_with_names_of_their_own() -> None:
    chart = strip_chart(subjects_of([samples.private().with_(subject="<script>x</script>")]))
    assert chart is not None
    wide, narrow = chart.static("wide"), chart.static("narrow")
    assert "&lt;script&gt;x&lt;/script&gt;" in wide
    assert wide != narrow
    assert wide == chart.static("wide")
    assert "var(--shown)" in wide


def test_an_element_that_is_no_drawing_is_refused() -> None:
    image = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": [{"url": "data:image/png;base64,"}]},
        "mark": {"type": "image", "width": 5, "height": 5},
        "encoding": {"url": {"field": "url", "type": "nominal"}},
    }
    with pytest.raises(ValueError, match="element image"):
        svg.draw(image, "x")


def test_the_log_scale_moves_the_band_and_not_the_numbers_told() -> None:
    chart = roc_chart(subjects_of([samples.private()])[0])
    assert chart is not None
    for layer in chart.specs["log"]["layer"]:
        written = {step["as"] for step in layer.get("transform", []) if "as" in step}
        assert written <= {"edge"}
    assert min(point["lower"] for point in chart.data["curves"]) < 1e-4


def test_thinned_curve_keeps_low_rates() -> None:
    rates = np.concatenate(([0.0], np.logspace(-4, 0, 5000)))
    kept = np.array([point[0] for point in thinned([(float(rate),) for rate in rates], 90)])
    assert np.count_nonzero((kept > 0) & (kept < 1e-3)) >= 15
