"""The site links every word of the glossary at its first use on a page (docs/terms.py)."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("terms", DOCS / "terms.py")
terms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(terms)
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts and path.name != "glossary.md"]
LINKED = re.compile(r"⟦[^⟧]*⟧|\[[^\]]*\]\([^)]*\.md[^)]*\)")


def test_every_entry_of_the_glossary_is_sought_and_has_an_anchor():
    assert terms.ENTRY.findall(GLOSSARY) == list(terms.TERMS)
    page = terms.anchored(GLOSSARY)
    for term in terms.TERMS:
        assert page.count(f'<span id="{terms.anchor(term)}">**{term}**</span>') == 1


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_a_page_links_every_word_where_it_is_first_used(path):
    page = terms.linked(path.read_text(encoding="utf-8"), "glossary.html")
    for anchor in re.findall(r'href="glossary\.html#([^"]*)"', page):
        assert anchor in map(terms.anchor, terms.TERMS)
    marked = re.sub(r"<a [^>]*>(.*?)</a>", r"⟦\1⟧", page)
    spoken = terms.CLOSED.sub(lambda found: found[0] if LINKED.fullmatch(found[0]) else " ", marked)
    inside = [link.span() for link in LINKED.finditer(spoken)]
    first = {}
    for word in terms.WORD.finditer(spoken):
        first.setdefault(word.lastgroup, any(start <= word.start() < end for start, end in inside))
    assert all(first.values())


def test_code_headings_and_addresses_stay():
    page = (
        "# Records\n\n`records` and [a plan](plans.md) of records\n\n```\nan audit\n```\n\n| event |\n|---|\n| Events |"
    )
    told = terms.linked(page, "G")
    assert told == page.replace("of records", 'of <a class="term" href="G#word-record">records</a>').replace(
        "| Events", '| <a class="term" href="G#word-event">Events</a>'
    )
    assert terms.linked("a [canary](../glossary.md) or canary", "G") == 'a <a href="G#word-canary">canary</a> or canary'
