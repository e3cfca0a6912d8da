"""Tutorials as notebooks: each page of docs/tutorials with code can be downloaded as the Jupyter notebook it is.

The page is the source: its text becomes cells of text, its Python blocks become cells of code, and the output shown
under a block is that cell's output. A test runs these blocks and compares what they print with what is shown, so the
notebook is an executed one. Links to other pages become plain words, since a downloaded file has no pages beside it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

FENCE = re.compile(r"^```(python|output)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)")
OFFER = '\n\n<p class="notebook"><a href="{name}.ipynb" download>Download this page as a notebook</a></p>\n\n'


def notebook(page: str) -> dict[str, object]:
    """The notebook (nbformat 4) of a page in Markdown."""
    cells: list[dict[str, object]] = []
    place = 0
    for block in FENCE.finditer(page):
        _add_text(cells, page[place : block.start()])
        place = block.end()
        if block[1] == "python":
            cells.append({"cell_type": "code", "metadata": {}, "source": _lines(block[2].rstrip("\n")), "outputs": []})
        else:
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": _lines(block[2])}]
    _add_text(cells, page[place:])
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, start=1):
        cell["execution_count"] = count
    for count, cell in enumerate(cells):
        cell["id"] = f"cell-{count}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def _add_text(cells: list[dict[str, object]], text: str) -> None:
    if text.strip():
        source = _lines(LINK.sub(r"\1", text.strip()))
        cells.append({"cell_type": "markdown", "metadata": {}, "source": source})


def _lines(text: str) -> list[str]:
    """A text as notebooks store it: a list of lines that keep their ends."""
    return text.splitlines(keepends=True)


def offered(docname: str, page: str) -> bool:
    """Whether a page is a tutorial that has code to run."""
    return docname.startswith("tutorials/") and any(block[1] == "python" for block in FENCE.finditer(page))


def source_read(app: object, docname: str, source: list[str]) -> None:
    """Sphinx calls this for every page before it is parsed: a tutorial offers its notebook under its heading."""
    if offered(docname, source[0]):
        heading, _, rest = source[0].partition("\n")
        source[0] = heading + OFFER.format(name=docname.rpartition("/")[2]) + rest.lstrip("\n")


def write(folder: Path, pages: Path) -> list[Path]:
    """Write the notebook of every tutorial under `pages` beside its page in `folder`."""
    written = []
    for path in sorted((pages / "tutorials").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if offered(f"tutorials/{path.stem}", text):
            target = folder / "tutorials" / f"{path.stem}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            written.append(target)
    return written


def build_finished(app: object, exception: Exception | None) -> None:
    """Sphinx calls this when a site is written."""
    builder = getattr(app, "builder", None)
    if exception is None and builder is not None and builder.format == "html":
        write(Path(builder.outdir), Path(builder.srcdir))
