"""The API reference: every public name, member and argument is explained, and every example runs."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)
WITH_EXAMPLES = ["tacit", "tacit.events", "tacit.train", "tacit.erm", "tacit.mechanism", "tacit.query", "tacit.pate"]
RUN = """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    exec(compile({code!r}, {name!r}, "exec"), {{"__name__": "example"}})
"""


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


@pytest.mark.parametrize("room", reference.ROOMS)
def test_every_room_has_a_page_that_names_all(room):
    path = DOCS / "api" / f"{room.rpartition('.')[2]}.md"
    assert f"<!-- reference: {room} -->" in path.read_text(encoding="utf-8")
    page = reference.page(room)
    for name in reference.own_names(room):
        assert f"\n## {name}\n" in f"\n{page}", name


@pytest.mark.parametrize("room", WITH_EXAMPLES)
def test_every_name_has_an_example_that_uses_it(room):
    found = reference.examples(room)
    assert set(reference.own_names(room)) - set(found) == set()


@pytest.mark.slow
@pytest.mark.parametrize("room", WITH_EXAMPLES)
def test_examples_run(room, tmp_path):
    cells = {under: code for code, under in reference.examples(room).values()}
    script = "\n".join(RUN.format(code=code, name=name) for name, code in cells.items())
    command = [sys.executable, "-W", "error::tacit.PrivacyWarning", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_docstrings_become_markdown_that_is_safe():
    text = reference.markdown(
        "Sum of `a*b` and c*d*e.\n\n    M(D) = f(D)\n\nGuarantee: epsilon < 1.\nCaller ensures: x."
    )
    assert "`a*b` and c\\*d\\*e" in text
    assert "```text\nM(D) = f(D)\n```" in text
    assert "**Guarantee**: epsilon \\< 1." in text
    assert "\n**Caller ensures**: x." in text
