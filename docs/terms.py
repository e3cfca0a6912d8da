"""Links every word of the glossary at its first use on a page, and gives each entry of the glossary an anchor.

Sources link by hand the terms that a reader may not know. The site links all of them, quietly: `source_read` writes the
other links when Sphinx reads a page. Words with an ordinary meaning as well are sought in the form of the glossary.
"""

from __future__ import annotations

import re

TERMS = {
    "record": r"records?",
    "adjacency": r"adjacenc(?:y|ies)",
    "epsilon, delta": r"epsilon",
    "event": r"events?(?! [A-Z] )",
    "noise_multiplier": r"noise multipliers?",
    "rate": r"sampling rates?|rate of Poisson sampling",
    "steps": r"noisy steps?|number of steps",
    "clip_norm": r"clip norms?",
    "confidence": r"confidence",
    "rng": r"random sources?|source of randomness",
    "privacy loss": r"privacy[ -]loss",
    "interval": r"certified intervals?",
    "trade-off curve, frontier": r"trade-off curves?|frontiers?",
    "advantage": r"advantages?",
    "member": r"members?",
    "TPR at FPR": r"TPR|true-positive rates?",
    "scores": r"scores",
    "observations": r"observations",
    "reference model": r"reference models?",
    "game": r"games?",
    "canary": r"canar(?:y|ies)",
    "bound": r"(?:upper|lower|proven) bounds?",
    "attainable": r"attainable",
    "verdict": r"verdicts?",
    "control": r"controls?",
    "evidence": r"evidence",
    "plan": r"plans?",
    "ledger": r"ledgers?",
    "receipt": r"receipts?",
    "filter": r"privacy filters?|(?<!\d )filters",
    "fleet": r"fleets?",
    "teacher, student": r"teachers?",
    "private value": r"private values?",
    "audit": r"audits?",
    "bracket": r"bracket",
    "Poisson sampling": r"Poisson (?:sampl\w+|batch\w*)",
    "schema": r"schemas?",
}
"""Every word of the glossary, and how sentences use it."""
ENTRY = re.compile(r"^\| \*\*([^*]+)\*\* \|", re.MULTILINE)
"""The first cell of an entry of the glossary."""
CLOSED = re.compile(
    r"""(
    ^(?P<indent>\ *)(?P<fence>`{3,}|~{3,}|:{3,})(?s:.*?)^(?P=indent)(?P=fence)[ \t]*$  # code and directives
    | (?:(?<=\n\n)|\A)(?:\ {4}.*\n)+                                                 # indented blocks
    | ^\ *(?:\#|<|\(\w+\)=).*$                                                       # headings, HTML, labels
    | ^\|.*\n\|[ :|-]+\|$                                                            # heads of tables
    | ``.*?`` | `[^`]*` | <[a-zA-Z!/][^>]*> | !?\[[^\]]*\](?:\([^)]*\))? | \$[^$]*\$ | \S*[/_]\S*
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""Parts of a page that hold no words to link."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*\.md[^)]*)\)")
WORD = re.compile(
    r"(?<![\w-])(?:" + "|".join(f"(?P<t{k}>{words})" for k, words in enumerate(TERMS.values())) + r")(?![\w-]|\.\w)",
    re.IGNORECASE,
)


def anchor(term: str) -> str:
    """The address of an entry on the page of the glossary."""
    return "word-" + re.sub(r"\W+", "-", term.lower())


def anchored(glossary: str) -> str:
    """The page of the glossary, with an anchor at each entry."""
    return ENTRY.sub(lambda found: f'| <span id="{anchor(found[1])}">**{found[1]}**</span> |', glossary)


def linked(page: str, glossary: str) -> str:
    """A page whose words of the glossary are linked at their first use; `glossary` is the address from there."""
    names, done, parts = list(TERMS), set[str](), list[str]()

    def link(found: re.Match[str]) -> str:
        term = names[int((found.lastgroup or "t0")[1:])]
        if term in done:
            return found[0]
        done.add(term)
        return f'<a class="term" href="{glossary}#{anchor(term)}">{found[0]}</a>'

    place = 0
    for closed in CLOSED.finditer(page):
        parts.append(WORD.sub(link, page[place : closed.start()]))
        place = closed.end()
        by_hand = LINK.fullmatch(closed[0])
        words = list(WORD.finditer(by_hand[1])) if by_hand else []
        terms = [names[int((word.lastgroup or "t0")[1:])] for word in words]
        done.update(terms)
        if by_hand and len(terms) == 1 and by_hand[2].rpartition("/")[2] == "glossary.md":
            parts.append(f'<a href="{glossary}#{anchor(terms[0])}">{by_hand[1]}</a>')
        else:
            parts.append(closed[0])
    return "".join([*parts, WORD.sub(link, page[place:])])


def source_read(app: object, docname: str, source: list[str]) -> None:
    """Sphinx calls this for every page before it is parsed."""
    if docname == "glossary":
        source[0] = anchored(source[0])
    else:
        source[0] = linked(source[0], "../" * docname.count("/") + "glossary.html")
