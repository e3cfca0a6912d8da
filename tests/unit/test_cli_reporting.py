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
