"""How readable is what people read? Sentence lengths, glossary links at first use, docstrings that stand alone.

    python benchmarks/readability.py            # a table of all pages and rooms, kept in benchmarks/results
    python benchmarks/readability.py docs/x.md  # the long sentences of one page

Counted are sentences of README, CHANGELOG, docs and docstrings outside code, tables, headings, quotations and formulas.
A formula within a sentence counts as one word. A sentence ends with a full stop, question mark or exclamation mark
before white space, or with its paragraph or item.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEDIAN, LONGEST = 17, 35
TERMS = {
    "canary": r"\bcanar(y|ies)\b",
    "bracket": r"\bbracket\b",
    "Poisson sampling": r"\bPoisson (sampl\w+|batch\w*)",
    "trade-off curve": r"\btrade-off curves?\b",
    "fleet": r"\bfleets?\b",
    "reference model": r"\breference models?\b",
    "adjacency": r"\badjacenc(y|ies)\b",
}
"""Terms of art that every page links to the glossary at their first use."""
MORE_TERMS = {
    "event": r"\bevents?\b",
    "noise_multiplier": r"\bnoise multipliers?\b",
    "clip_norm": r"\bclip norms?\b",
    "privacy loss": r"\bprivacy[ -]loss\b",
    "advantage": r"\badvantages?\b",
    "member": r"\bmembers?\b",
    "TPR at FPR": r"\bTPR\b|\btrue-positive rates?\b",
    "observations": r"\bobservations\b",
    "game": r"\bgames?\b",
    "attainable": r"\battainable\b",
    "verdict": r"\bverdicts?\b",
    "control": r"\bcontrols?\b",
    "evidence": r"\bevidence\b",
    "ledger": r"\bledgers?\b",
    "receipt": r"\breceipts?\b",
    "teacher, student": r"\bteachers?\b",
    "private value": r"\bprivate values?\b",
    "audit": r"\baudits?\b",
    "schema": r"\bschemas?\b",
}
"""Terms that a page links as well, unless it is one of proofs or decisions: their readers come from such a page."""
ORDINARY = {
    "record", "epsilon, delta", "rate", "steps", "confidence", "rng", "interval", "scores", "bound", "plan", "filter",
}  # fmt: skip
"""Words of the glossary that are also ordinary English: sources link them where that helps, and the site always."""
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\))?")
GLOSSARY = re.compile(r"\[[^\]]*\]\([^)]*\.md[^)]*\)")
"""A link to a page that explains a term: the glossary, or the term's own page."""
END = re.compile(r"(?<!\bet al)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<=[.?!])[\"')*_]*\s+")


@dataclass(frozen=True)
class Prose:
    """What was counted of one page or room."""

    name: str
    sentences: int
    median: float
    long: tuple[str, ...]
    unlinked: tuple[str, ...] = ()

    @property
    def row(self) -> dict[str, object]:
        return {
            "name": self.name,
            "sentences": self.sentences,
            "median": self.median,
            "longest": max([words(text) for text in self.long], default=0),
            "over_35": len(self.long),
            "unlinked": list(self.unlinked),
        }


def words(sentence: str) -> int:
    """Words that a reader reads: code and formulas count as one each, however many signs they have."""
    tokens = re.sub(r"`[^`]*`|\$[^$]*\$", "code", sentence).split()
    count, inside = 0, False
    for token in tokens:
        sign = is_sign(token)
        count += not (inside and (sign or is_number(token)))
        inside = sign or (inside and is_number(token))
    return count


def is_number(token: str) -> bool:
    return bool(re.fullmatch(r"[\d.,]+", token.strip("()")))


def is_sign(token: str) -> bool:
    """Part of a formula: an operator, a single letter with its marks, or symbols joined by operators."""
    core = token.strip(".,;:()[]\"'*?!")
    if re.search(r"[A-Za-z]{4,}", core) or core.lower() in ("a", "i"):
        return False
    return len(core) <= 1 or bool(re.search(r"[=<>≤≥≠≈∈∉√Σ∏∫^_|·×−+/*∞′{}₀-₉Α-ω]", core))


def is_formula(sentence: str) -> bool:
    """Mostly symbols: left out, as are tables."""
    return len(re.findall(r"[=<>≤≥∈√Σ^]", sentence)) * 8 > len(sentence.split())


def sentences(markdown: str) -> Iterator[str]:
    text = FENCE.sub("\n\n", re.sub(r"<!--.*?-->|^---\n.*?^---\n", "", markdown, flags=re.DOTALL | re.MULTILINE))
    text = re.sub(r"\$\$.*?\$\$|!\[[^\]]*\]\([^)]*\)", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", text):
        lines = [line for line in block.splitlines() if not re.match(r"\s*(\||#|<|>|\(.*\)=$|:::|```)", line)]
        flat = LINK.sub(r"\1", " ".join(lines)).strip().lstrip("->*+ ")
        yield from (part for part in END.split(flat) if part and re.search(r"[A-Za-z]", part) and not is_formula(part))


def judged(name: str, texts: list[str], unlinked: tuple[str, ...] = ()) -> Prose:
    found = [part for text in texts for part in sentences(text)]
    median = statistics.median([words(part) for part in found]) if found else 0
    return Prose(name, len(found), median, tuple(part for part in found if words(part) > LONGEST), unlinked)


def terms(name: str) -> dict[str, str]:
    """The terms that a page must link."""
    return TERMS if name.startswith(("docs/proofs/", "docs/decisions/")) else {**TERMS, **MORE_TERMS}


def unlinked(markdown: str, sought: dict[str, str] = TERMS) -> tuple[str, ...]:
    """Terms whose first use on the page, outside headings and code, is no link to the glossary."""
    text = re.sub(r"^#.*$", "", FENCE.sub("", markdown), flags=re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+|`[^`]*`", "", text)
    found = []
    for term, pattern in sought.items():
        first = re.search(pattern, text)
        linked = [link.span() for link in GLOSSARY.finditer(text)]
        if first and not any(start <= first.start() < end for start, end in linked):
            found.append(term)
    return tuple(found)


def pages() -> list[Path]:
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    return [page for page in found if "_build" not in page.parts and page.name not in ("contract.md", "glossary.md")]


@cache
def docstrings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [text for node in ast.walk(tree) if isinstance(node, kinds) and (text := ast.get_docstring(node))]


def without_displays(docstring: str) -> str:
    """A docstring without its indented blocks: formulas, tables and code that stand on lines of their own."""
    return re.sub(r"(?<=\n)(?: {4,}.*(?:\n|$))+", "\n", docstring)


def all_prose() -> list[Prose]:
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        name = str(page.relative_to(ROOT))
        found.append(judged(name, [text], unlinked(text, terms(name)) if name.startswith("docs/") else ()))
    for room in sorted(path.parent for path in (ROOT / "src" / "tacit").glob("*/__init__.py")):
        texts = [without_displays(text) for path in sorted(room.rglob("*.py")) for text in docstrings(path)]
        found.append(judged(f"src/tacit/{room.name}", texts))
    return found


def begin_the_same() -> list[str]:
    """Docstrings that cannot be read alone."""
    every = [(path, text) for path in sorted((ROOT / "src").rglob("*.py")) for text in docstrings(path)]
    return [f"{path.relative_to(ROOT)}: {text.splitlines()[0]}" for path, text in every if text.startswith("The same")]


def main(given: list[str]) -> None:
    if given and given[0] in ("-h", "--help"):
        print(__doc__)
        return
    if given:
        for name in given:
            for sentence in judged(name, [Path(name).read_text(encoding="utf-8")]).long:
                print(words(sentence), sentence)
        return
    rows = [prose.row for prose in all_prose()]
    for row in rows:
        print(
            f"{row['name']:44} {row['sentences']:5} median {row['median']:4} over 35: {row['over_35']:3}",
            row["unlinked"],
        )
    total = judged("everything", [page.read_text(encoding="utf-8") for page in pages()])
    over = sum(int(str(row["over_35"])) for row in rows)
    result = {"median_of_pages": total.median, "over_35": over, "the_same": begin_the_same(), "rows": rows}
    print("median of all pages", total.median, "docstrings that begin 'The same'", len(result["the_same"]))
    path = ROOT / "benchmarks" / "results" / "readability.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
