"""What the pages show: their fenced blocks, and a way to run the Python ones as a reader would.

All run in the process of the tests, so that torch and the other libraries are loaded once and not once per page.
"""

import contextlib
import dataclasses
import io
import re
import sys
import types
import warnings
from pathlib import Path

import tacit

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.(?:py|toml))$")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block and the output shown under it. One whose first line names a file is that file."""

    kind: str
    text: str
    output: str = ""

    @property
    def file(self):
        found = FILE.match(self.text.splitlines()[0]) if self.kind in ("python", "toml") else None
        return found and found[1]

    @property
    def commands(self):
        return (
            [line for line in self.text.splitlines() if line.startswith("tacit ")] if self.kind in ("", "shell") else []
        )


def blocks(page):
    found = []
    for kind, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "output":
            found[-1] = dataclasses.replace(found[-1], output=text)
        else:
            found.append(Block(kind, text))
    return found


def runnable(page):
    return [block for block in blocks(page) if block.kind == "python" and not block.file]


def save_files(page, folder):
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def played(codes, folder, monkeypatch, *, name="page"):
    """What each code prints, all run in order in one namespace and in a folder; a PrivacyWarning is an error."""
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(folder)
    printed = []
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("error", tacit.PrivacyWarning)
        for place, code in enumerate(codes):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, f"block {place}", "exec"), vars(module))
            printed.append(out.getvalue())
    return printed
