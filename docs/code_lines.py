"""Give every line of a code block a span of its own, so that a line that wraps on a narrow screen keeps its indent.

A wrapped line of Python that began at the margin would read as a statement of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge

TAGS = re.compile(r"<[^>]*>")


class Lines(HtmlFormatter[str]):
    """HTML of code, line by line; `--indent` is the number of spaces that a line begins with."""

    def wrap(self, source: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        return super().wrap((is_line, spanned(text) if is_line else text) for is_line, text in source)


def spanned(line: str) -> str:
    """One highlighted line, its newline included, in a span."""
    text = TAGS.sub("", line)
    indent = len(text) - len(text.lstrip(" ")) if text.strip() else 0
    style = f' style="--indent: {indent}"' if indent else ""
    return f'<span class="code-line"{style}>{line}</span>'


def install() -> None:
    """Let Sphinx write code by `Lines`; its builder chooses the formatter before any event of extensions."""
    PygmentsBridge.html_formatter = Lines
