"""`tacit report`: one page from one or several files, opened, printed or refused."""

import json
import webbrowser
from pathlib import Path

import pytest

import report_samples as samples
from command import Command


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    samples.plain().save("plain.json")
    samples.private().save("private.json")
    return Command(capsys, monkeypatch)


@pytest.mark.parametrize("there", [True, False])
def test_the_page_is_opened_where_a_browser_is(tacit_, monkeypatch, there):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or there)
    status, out, err = tacit_("report", "private.json", "--open")
    assert status == 0
    assert asked == [Path("report.html").resolve().as_uri()]
    assert "report.html" in out
    assert ("No browser was found" in err) is not there


def test_several_files_make_one_page_with_a_comparison(tacit_):
    status, out, _ = tacit_("report", "plain.json", "private.json", "--out", "both.html", "--json")
    found = json.loads(out)
    assert (status, found["verdict"]) == (0, "consistent")
    text = Path("both.html").read_text()
    assert "The models beside each other" in text
    assert found["bytes"] == len(text.encode())


def test_the_pdf_is_named_beside_the_page(tacit_, monkeypatch):
    monkeypatch.setattr("tacit.reports.print_pdf", lambda page, path: Path(path))
    _, out, _ = tacit_("report", "private.json", "--pdf", "filed.pdf")
    assert [line.split() for line in out.splitlines()[:2]] == [["page", "report.html"], ["pdf", "filed.pdf"]]
    _, out, _ = tacit_("report", "private.json", "--pdf", "filed.pdf", "--json")
    assert json.loads(out)["pdf"] == "filed.pdf"


def test_a_page_of_records_says_where_there_are_none(tacit_):
    samples.private().with_(exposures=()).save("nobody.json")
    assert "the evidence names none" in tacit_("report", "nobody.json", "--records")[2]
    assert bool(samples.private().exposures) is ("names none" not in tacit_("report", "private.json", "--records")[2])


def test_the_folder_of_a_run_is_answered_with_the_file_in_it(tacit_):
    Path("run").mkdir()
    samples.private().save("run/evidence.json")
    assert "run is a folder. Give run/evidence.json." in tacit_("report", "run")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("absent.json",), "absent.json"),
        (("future.json",), "tacit.evidence/9"),
        (("corrupt.json",), "corrupt.json"),
        (("private.json", "--public", "--records"), "not both"),
        (("private.json", "--out", "no/such/page.html"), "folder does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tacit_, words, said):
    future = {**samples.private().to_json(), "schema": "tacit.evidence/9"}
    Path("future.json").write_text(json.dumps(future))
    Path("corrupt.json").write_text("{")
    status, out, err = tacit_("report", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not Path("report.html").exists()
