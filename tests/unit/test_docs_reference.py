"""The API reference: every public name, member and argument is explained, and every example runs."""

import importlib.util
import re
import sys

import pytest

import tacit.erm
from pages import DOCS, played

_spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
sys.path.insert(0, str(DOCS))
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


@pytest.mark.parametrize("room", reference.ROOMS)
def test_every_public_name_and_argument_is_explained(room):
    assert reference.undocumented(room) == []
    assert reference.unexplained(room) == []


def test_what_is_not_explained_is_counted(monkeypatch):
    import tacit.mechanism

    def bare(unheard_of):
        pass

    monkeypatch.setattr(tacit.mechanism, "bare", bare, raising=False)
    monkeypatch.setattr(tacit.mechanism, "__all__", [*tacit.mechanism.__all__, "bare"])
    assert reference.undocumented("tacit.mechanism") == ["bare"]
    assert reference.unexplained("tacit.mechanism") == ["bare(unheard_of)"]


@pytest.mark.slow
def test_words_for_an_argument_fit_its_type():
    """`speed` of `Adaptive` is a number: the words about a `Speed` were shown for it, too."""
    assert reference.mixed() == {}


def test_types_without_a_common_one_are_noticed(monkeypatch):
    monkeypatch.setattr(reference, "ROOMS", ("tacit", "tacit.train"))
    monkeypatch.delitem(reference.ARGUMENTS, "Adaptive(speed)")
    assert list(reference.mixed()) == ["speed"]


@pytest.mark.parametrize("room", reference.ROOMS)
def test_every_room_has_a_page_that_names_all(room):
    path = DOCS / "api" / f"{room.rpartition('.')[2]}.md"
    assert f"<!-- reference: {room} -->" in path.read_text(encoding="utf-8")
    page = reference.page(room)
    for name in reference.own_names(room):
        assert f"\n## {name}\n" in f"\n{page}", name


@pytest.mark.parametrize("room", reference.ROOMS)
def test_every_name_has_an_example_that_uses_it(room):
    found = reference.examples(room)
    assert set(reference.own_names(room)) - set(found) == set()


@pytest.mark.slow
@pytest.mark.parametrize("room", reference.ROOMS)
def test_examples_run(room, tmp_path, monkeypatch):
    for code in {code: None for code, _ in reference.examples(room).values()}:
        assert played([code], tmp_path, monkeypatch)[0].strip()


def test_words_with_a_bar_stay_in_one_cell():
    """Of "Weight of |theta|^2 / 2" the page showed "Weight of"."""
    told = reference._arguments("PrivateRidge", tacit.erm.PrivateRidge)
    assert r"The weight of \|theta\|^2 / 2" in told
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in told.strip().splitlines())


def test_words_may_hold_for_one_room():
    assert "zero-out" not in reference.meaning("PrivateRidge", "adjacency")
    assert "zero-out" in reference.meaning("epsilon", "adjacency")
    assert "sum of the losses" in reference.meaning("ObjectivePerturbation", "regularization")


def test_docstrings_become_markdown_that_is_safe():
    text = reference.markdown(
        "Sum of `a*b` and c*d*e.\n\n    M(D) = f(D)\n\nGuarantee: epsilon < 1.\nCaller ensures: x."
    )
    assert "`a*b` and c\\*d\\*e" in text
    assert "```text\nM(D) = f(D)\n```" in text
    assert "**Guarantee**: epsilon \\< 1." in text
    assert "\n**Caller ensures**: x." in text


def test_a_word_of_a_sentence_does_not_explain_an_argument():
    """`secret` of `homogeneity` was taken for explained, since the sentence has the word."""
    assert not reference.described("Rows that share one secret.", "secret")
    assert reference.described("Rows that share one `secret`.", "secret")
    assert reference.described("Rows.\n\nk, secret: the column.", "secret")
    assert reference.described("Rows.\n\nk: how many; secret: the column.", "secret")


def test_every_argument_has_a_row_and_names_lead_to_their_entries():
    page = reference.page("tacit.disclosure")
    assert "| `secret` | The column whose value" in page
    assert "| [`homogeneity`](#name-tacit-disclosure-homogeneity) | How many rows" in page
    assert "Example: see [`uniqueness`](#name-tacit-disclosure-uniqueness)." in page
    assert "Returns: [`Homogeneity`](#class-tacit-disclosure-homogeneity)." in page


def test_a_summary_ends_with_the_first_sentence_and_not_within_it():
    for text in ("Labels (0 .. k - 1) of x . theta (Watson et al. 2022).", "A `Bar`.", "c_0 .. c_{b-1} along them."):
        assert reference.summary(f"{text} `more` is said.") == text


def test_an_enumeration_shows_its_values_and_no_call():
    """Of `Adjacency` the page showed the call of Python's own EnumType."""
    entry = reference._entry("tacit", "Adjacency", {}, {})
    assert '- `Adjacency.REPLACE`, or `"replace"`' in entry
    assert "qualname" not in entry


def test_lines_that_explain_arguments_become_a_list():
    text = reference.markdown(
        "A table.\n\nsource: a file.\nmost, least: how many.\nnobody: a word.", ["source", "most"]
    )
    assert text.splitlines()[2:] == ["- `source`: a file.", "- `most, least`: how many.", "nobody: a word."]


def test_links_of_every_page_lead_to_entries_that_are_there():
    whole = "\n".join(map(reference.page, reference.ROOMS))
    links = set(re.findall(r"\]\(#([^)]*)\)", whole))
    assert len(links) > 250
    assert links <= set(re.findall(r"^\((\S+)\)=$", whole, re.M))
