"""Sphinx: MyST pages, the furo theme, nothing fetched from outside."""

project = "tacit"
author = "the tacit authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "tacit"
