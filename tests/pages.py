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
MARKED = re.compile(r"(?:^<!-- not run: (.*?) -->\n+)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A block, and the reason that a comment above it gives for not running it."""
FILE = re.compile(r"# (\w+\.(?:py|toml))$")

GIVEN = {
    ("training", 0): """
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.rand(600, 4), torch.arange(600) % 2
dataset, (x_test, y_test) = (x, y), (x[:50].clone(), y[:50].clone())
model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
""",
    ("training", 2): """
model = nn.Sequential(nn.EmbeddingBag(9, 2, padding_idx=0))
dataset = [{"text": "abc"[: 1 + place % 3], "label": place % 2} for place in range(60)]
tokenizer = lambda text, **more: {"input_ids": [1 + "abc".index(letter) for letter in text]}
loss = lambda model, batch: nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"], reduction="none")
plan = tacit.plan(60, epsilon=3, delta=1e-5, epochs=1, batch_size=30)
""",
    ("training", 3): """
x, y, ids = torch.rand(60, 3, 8, 8), torch.arange(60) % 2, torch.arange(60) // 2
model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
""",
    ("training", 4): "pretrained = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))",
    ("training", 5): "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
}
"""What a reader has before a block of a page: stand-ins for their own model and data."""
SMALLER = {
    "60_000": "600",
    "epochs=20, batch_size=1024": "epochs=1, batch_size=300",
    "5_000, 0.02, 1_000": "30, 0.5, 2",
}
"""Sizes of blocks that would take minutes, of a page that shows no output for them."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block and the output shown under it. One whose first line names a file is that file."""

    kind: str
    text: str
    output: str = ""
    not_run: str = ""

    @property
    def file(self):
        found = FILE.match(self.text.splitlines()[0]) if self.kind in ("python", "toml") else None
        return found and found[1]

    @property
    def commands(self):
        """Those of tacit; in a console they stand after a dollar sign."""
        lines = [line.removeprefix("$ ") for line in self.text.splitlines()]
        return [line for line in lines if line.startswith("tacit ")] if self.kind in ("", "shell", "console") else []


def blocks(page):
    found = []
    for why, kind, text in MARKED.findall(page.read_text(encoding="utf-8")):
        if kind == "output":
            found[-1] = dataclasses.replace(found[-1], output=text)
        else:
            found.append(Block(kind, text, not_run=why))
    return found


def runnable(page):
    return [block for block in blocks(page) if block.kind == "python" and not block.file and not block.not_run]


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


def prepared(page):
    """The code of every block of a page that is run, after what a reader has before it, at sizes for a test."""
    found = []
    for place, block in enumerate(runnable(page)):
        text = block.text
        if (page.stem, 0) in GIVEN:
            for usual, smaller in SMALLER.items():
                text = text.replace(usual, smaller)
        found.append(f"{GIVEN.get((page.stem, place), '')}\n{text}")
    return found
