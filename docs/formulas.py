"""Formulas of the pages of proofs: subscripts and powers as such, where the sources write w_j and e^{-x}.

Sources stay readable in any editor, and the site needs no library for mathematics. A block that is indented by four
spaces is a formula; so is what stands between words, outside code.
"""

from __future__ import annotations

import html
import re

SPOKEN = re.compile(r"(`[^`]*`|\]\([^)]*\)|<!--.*?-->)", re.DOTALL)
"""Parts of a text that stay as they are: code, addresses of links, comments."""
HELD = r"\{[^{}]*\}|\((?:[^()]|\([^()]*\))*\)"
"""What braces or round brackets hold together; brackets may hold other ones."""
LOWERED = re.compile(rf"(?<=[^\s_`])_({HELD}|max|min|\d+|\w|[+∞])")
RAISED = re.compile(rf"\^({HELD}|[−-]?\d+|\w|[−-]\w|[′∞])")
BLOCK = re.compile(r"(?:(?<=\n\n)|\A)((?: {4}.*\n)+)(?=\n|\Z)")


def marked(text: str) -> str:
    """A text with its subscripts and powers in HTML, inner ones first."""
    before = ""
    while before != text:
        before = text
        text = LOWERED.sub(lambda found: f"<sub>{_inside(found[1])}</sub>", text)
        text = RAISED.sub(lambda found: f"<sup>{_inside(found[1])}</sup>", text)
    return text


def _inside(held: str) -> str:
    return held[1:-1] if held[0] in "{(" and len(held) > 2 else held


def drawn(page: str) -> str:
    """The Markdown of a page with its formulas in HTML."""
    parts = BLOCK.split(page)
    for place, part in enumerate(parts):
        if place % 2:
            lines = [html.escape(line.removeprefix("    "), quote=False) for line in part.splitlines()]
            parts[place] = f'<div class="formula">{marked("<br>".join(lines))}</div>\n'
        else:
            said = SPOKEN.split(part)
            parts[place] = "".join(text if odd % 2 else marked(text) for odd, text in enumerate(said))
    return "".join(parts)


def source_read(app: object, docname: str, source: list[str]) -> None:
    """Sphinx calls this for every page before it is parsed."""
    if docname.startswith("proofs/"):
        source[0] = drawn(source[0])
