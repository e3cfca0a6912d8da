"""Every sentence of the page has a source: a page with another model's numbers, or with a word of nobody, fails."""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import report_samples as samples
from report_traces import untraced
from tacit.core import Evidence
from tacit.reports import report

PAGES = {name: [name] for name in samples.SAMPLES} | {
    "two": ["plain", "private"],
    "same names": ["bracketed", "refuted", "bracketed"],
}


def evidence(name: str) -> list[Evidence]:
    return [samples.SAMPLES[part]() for part in PAGES[name]]


@cache
def html(name: str, *, public: bool = False) -> str:
    with TemporaryDirectory() as folder:
        page = report(evidence(name), Path(folder) / "page.html", public=public)
        return page.path.read_text(encoding="utf-8").split('<script type="application/json"')[0]


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_every_sentence_traces_to_the_evidence(name: str, public: bool) -> None:
    found = untraced(html(name, public=public), evidence(name), public=public)
    assert not found, "\n".join(["words without a source in the evidence or in golden/page_words.txt:", *found])


def test_neighbours_and_counts_are_those_of_the_claim() -> None:
    """A claim about users is neither about records nor about exchanged users, and its plan counts users."""
    page = html("of users")
    assert untraced(page.replace("data sets that differ by one", "data sets in which one"), evidence("of users")) != []
    told = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))
    assert "Records of 32 user s" in told
    assert "differ by one user more or less" in told
    assert "takes each unit of privacy independently" in told


@pytest.mark.parametrize(("name", "other"), list(itertools.pairwise([*PAGES, next(iter(PAGES))])))
def test_a_page_of_another_models_numbers_fails(name: str, other: str) -> None:
    assert untraced(html(name), evidence(other))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</main>", "<p>Tuning was made on public data only.</p></main>"),
        ("Proven, untested", "Consistent"),
        ("Proven, untested", "Proven"),
        ("No audit has tested the claim.", "An audit supports the claim."),
        ("to plan beds", "research"),
        ("by proof; it is untested", "by proof"),
        (r'(/0/claim/bound/epsilon">)[\d.]+', r"\g<1>1.02"),
        (r'(data-value=")1797(" data-path="/0/provenance/public_size)', r"\g<1>9\g<2>"),
    ],
)
def test_a_changed_word_or_number_is_noticed(old: str, new: str) -> None:
    changed, times = re.subn(old, new, html("trained"), count=1)
    assert times == 1
    assert len(untraced(changed, evidence("trained"))) >= 1


def test_bars_of_another_model_are_noticed() -> None:
    page = html("detailed")
    assert page.count("data-bars=") == 1
    changed = re.sub(r'data-bars="\d+', 'data-bars="77777', page)
    assert len(untraced(changed, evidence("detailed"))) == 1


def test_a_hidden_picture_of_another_model_is_noticed() -> None:
    changed, times = re.subn('data-found="[0-9]+"', 'data-found="7"', html("plain"))
    assert times == 1
    assert untraced(changed, evidence("plain")) == ["dots: 7"]


def test_guessing_is_said_only_where_the_interval_covers_it() -> None:
    page = html("private")
    assert page.count("data-guessing=") == 1
    assert untraced(re.sub('data-guessing="[^"]+"', 'data-guessing="/0/measurements/0/tpr_at_fpr/0"', page),
                    evidence("private")) != []  # fmt: skip
