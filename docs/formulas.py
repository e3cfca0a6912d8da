"""Formulas of proofs and of the lectures' page: subscripts and powers as such, where sources write w_j and e^{-x}.

Sources stay readable in any editor, and the site needs no library for mathematics. On a page of proofs a block that is
indented by four spaces is a formula; so is what stands between words, outside code.
"""

from __future__ import annotations

import html
import re

SPOKEN = re.compile(r"(`[^`]*`|\]\([^)]*\)|<a [^>]*>|<!--.*?-->)", re.DOTALL)
"""Parts of a text that stay as they are: code, addresses of links (those of `terms` too), comments."""
HELD = r"\{[^{}]*\}|\((?:[^()]|\([^()]*\))*\)"
"""What braces or round brackets hold together; brackets may hold other ones."""
LOWERED = re.compile(rf"(?<=[^\s_`])_({HELD}|max|min|\d+|\w|[+∞])")
RAISED = re.compile(rf"\^({HELD}|[−-]?\d+|\w|[−-]\w|[′∞])")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
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
            parts[place] = spoken(part)
    return "".join(parts)


def spoken(text: str) -> str:
    """A text with the formulas between its words in HTML; code, addresses and comments stay."""
    return "".join(part if odd % 2 else marked(part) for odd, part in enumerate(SPOKEN.split(text)))


def source_read(app: object, docname: str, source: list[str]) -> None:
    """Sphinx calls this for every page before it is parsed."""
    if docname.startswith("proofs/"):
        source[0] = drawn(source[0])
    if docname == "lectures":
        source[0] = "".join(part if odd % 2 else spoken(part) for odd, part in enumerate(FENCE.split(source[0])))
