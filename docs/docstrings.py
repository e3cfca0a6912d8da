"""What a docstring says, as Markdown for the API reference: whole, its first paragraph, or its first sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable

NAMES = r"(?:\w+|, )*"
"""Names with commas between them."""
LABEL = re.compile(r"^(Guarantee|Caller ensures|Edge cases|References?|Error|Raises)([^:\n]{0,20}): ", re.MULTILINE)


def described(text: str, argument: str) -> bool:
    """Whether a docstring marks an argument: in backticks, or with a colon at the start of a line or after a semicolon.

    The bare word does not count. It may be ordinary English, such as `secret` or `people`.
    """
    return bool(
        re.search(rf"`[^`\n]*\b{argument}\b[^`\n]*`|^{NAMES}\b{argument}\b{NAMES}: |; {argument}: ", text, re.M)
    )


def markdown(text: str, arguments: Iterable[str] = ()) -> str:
    """A docstring as Markdown: indented blocks become code, labels bold, lines `argument: words` a list."""
    text = LABEL.sub(r"\n**\1**\2: ", text)
    for name in arguments:
        text = re.sub(rf"^({NAMES}\b{name}\b{NAMES}): ", r"- `\1`: ", text, flags=re.M)
    out: list[str] = []
    code = False
    for line in text.split("\n"):
        inside = line.startswith("    ") or (code and not line.strip())
        if inside != code:
            while code and not out[-1].strip():
                out.pop()
            out += ["", "```text"] if inside else ["```", ""]
        code = inside
        out.append(line[4:] if inside else escaped(line))
    return "\n".join([*out, "```"] if code else out)


def escaped(line: str) -> str:
    """Characters that Markdown would read, outside of code and bold labels."""
    parts = re.split(r"(`[^`]*`|^\*\*[\w ]+\*\*)", line)
    return "".join(
        part if index % 2 else re.sub(r"([<$]|\*(?=\S)|(?<=\S)\*|^[#>])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


def first(text: str) -> str:
    """The first paragraph on one line, safe for Markdown."""
    return escaped(" ".join(text.split("\n\n")[0].split()))


def summary(text: str) -> str:
    """The first sentence of a docstring, fit for the cell of a table."""
    found = re.split(r"(?<=\w\.|\)\.|`\.)\s(?=[A-Z`(])", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    return escaped(found).replace("|", r"\|")
