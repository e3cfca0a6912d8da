"""Prose can be read: short sentences, linked terms, docstrings that stand alone (benchmarks/readability.py)."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("readability", ROOT / "benchmarks" / "readability.py")
readability = importlib.util.module_from_spec(_spec)
sys.modules["readability"] = readability
_spec.loader.exec_module(readability)
KEPT = json.loads((ROOT / "benchmarks" / "results" / "readability.json").read_text(encoding="utf-8"))
PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in readability.pages()}
PLAIN = [name for name in PAGES if name.startswith(("docs/tutorials", "docs/howto", "docs/api")) or name in (
    "README.md", "CONTRIBUTING.md", "docs/index.md", "docs/architecture.md", "docs/recipes.md", "docs/soundness.md",
    "docs/datasets.md", "docs/regulations.md", "docs/tour.md", "docs/tables.md",
)]  # fmt: skip


def test_no_docstring_refers_to_another():
    assert readability.begin_the_same() == []


@pytest.mark.parametrize("name", PLAIN)
def test_what_people_read_first_has_no_long_sentence(name):
    found = readability.judged(name, [PAGES[name]])
    assert found.long == ()
    assert found.median <= readability.MEDIAN


def test_the_median_sentence_is_short():
    assert readability.judged("all", list(PAGES.values())).median <= readability.MEDIAN


def test_no_sentence_is_long():
    """Neither now, nor in the result that `python benchmarks/readability.py` kept."""
    assert [(found.name, text) for found in readability.all_prose() for text in found.long] == []
    assert KEPT["over_35"] == 0


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/")])
def test_terms_are_linked_at_their_first_use(name):
    assert readability.unlinked(PAGES[name], readability.terms(name)) == ()


def test_every_word_of_the_glossary_is_sought_or_ordinary():
    """A new word of the glossary is linked at its first use, or listed as one that is ordinary English."""
    told = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = {row.split("**")[1].removesuffix(", frontier") for row in told.splitlines() if row.startswith("| **")}
    sought = {*readability.TERMS, *readability.MORE_TERMS}
    assert words == sought | readability.ORDINARY
    assert not sought & readability.ORDINARY


def test_the_measure_can_fail():
    long = " ".join(["word"] * 40) + "."
    assert len(readability.judged("x", [f"Short one. {long}"]).long) == 1
    assert readability.judged("x", [f"| {long} |\n\n```\n{long}\n```\n\n> {long}"]).sentences == 0
    assert readability.unlinked("A canary sings.") == ("canary",)
    assert readability.unlinked("A [canary](glossary.md) sings.") == ()
    assert readability.unlinked("A canary sings. The [canary](glossary.md) sang.") == ("canary",)
    assert readability.words("`a b c` is code") == 3
