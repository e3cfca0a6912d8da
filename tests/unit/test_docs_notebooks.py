"""Each tutorial can be downloaded as a notebook, with the code and output that tests/unit/test_docs_pages.py runs."""

import importlib.util
import json
import re

import pytest

from pages import DOCS, runnable

_spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)
TUTORIALS = [path for path in sorted((DOCS / "tutorials").glob("*.md")) if path.stem != "index"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_notebook_has_all_code_output_and_text_of_its_page(path):
    page = path.read_text(encoding="utf-8")
    assert notebooks.offered(f"tutorials/{path.stem}", page)
    cells = notebooks.notebook(page)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]) + "\n" for cell in code] == [block.text for block in runnable(path)]
    shown = ["".join(line for part in cell["outputs"] for line in part["text"]) for cell in code]
    assert shown == [block.output for block in runnable(path)]
    told = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "```output" not in told
    assert not re.search(r"\]\([^)]*\.md", told)
    for heading in re.findall(r"^##? .*$", page, flags=re.MULTILINE):
        assert heading in told


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_notebook_has_what_its_format_requires(path):
    """Version 4.5 of the format: a name for every cell, and a count and outputs for every cell of code."""
    found = json.loads(json.dumps(notebooks.notebook(path.read_text(encoding="utf-8"))))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert found["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in found["cells"]]
    assert len(set(names)) == len(names)
    for cell in found["cells"]:
        code = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_a_site_offers_and_holds_them(tmp_path):
    source = [TUTORIALS[0].read_text(encoding="utf-8")]
    notebooks.source_read(None, f"tutorials/{TUTORIALS[0].stem}", source)
    assert f'href="{TUTORIALS[0].stem}.ipynb"' in source[0]
    written = notebooks.write(tmp_path, DOCS)
    assert [path.stem for path in written] == [path.stem for path in TUTORIALS]
    index = [(DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")]
    before = list(index)
    notebooks.source_read(None, "tutorials/index", index)
    assert index == before
