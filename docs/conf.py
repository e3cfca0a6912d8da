"""Sphinx: MyST pages, the furo theme, nothing fetched from outside."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import code_lines
import formulas
import notebooks
import reference
import terms

project = "tacit"
author = "the tacit authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "api/examples"]
myst_enable_extensions = ["html_image", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "tacit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False


def setup(app: object) -> None:
    """Write the reference, link terms and draw formulas while pages are read; keep indents of wrapped code; offer
    each tutorial as a notebook."""
    code_lines.install()
    app.connect("source-read", notebooks.source_read)
    app.connect("source-read", reference.source_read)
    app.connect("source-read", terms.source_read)
    app.connect("source-read", formulas.source_read)
    app.connect("build-finished", notebooks.build_finished)
