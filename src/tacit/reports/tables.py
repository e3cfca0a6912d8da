"""The tables of the page, made from nodes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ..core.shown import at_least, at_most, significant, small
from .node import Node, count, likely, measured, percent, percent_at_most, rounded_percent, thousandths
from .subject import Subject
from .table import Cell, Column, Table
from .words import verdict_title

NONE = Cell(Markup('<span class="quiet">none</span>'), ("",))


def bounds(subjects: Sequence[Subject]) -> Table:
    """Demonstrated, attainable and claimed epsilon of every model, beside each other."""
    columns = (
        Column("Model", ("model",), numeric=False),
        Column("Demonstrated, at least", ("lower",)),
        Column("at confidence", ("confidence",)),
        Column("Attainable", ("attainable",)),
        Column("Claimed, at most", ("upper",)),
        Column("at delta", ("delta",)),
        Column("Verdict", ("verdict",), numeric=False),
    )
    return Table("bounds", "Epsilon from both sides", columns, [_bounds_row(subject) for subject in subjects])


def _bounds_row(subject: Subject) -> list[Cell]:
    lower, claim = subject.lower, subject.claim
    some = bool(subject.evidence.demonstrations)
    return [
        Cell(subject.name, (subject.label,)),
        _number(lower["bound"]["epsilon"], at_least) if lower else NONE,
        _number(lower["bound"]["confidence"], rounded_percent) if lower else NONE,
        _number(subject.node["attainable"], at_most) if some else NONE,
        _number(claim["bound"]["epsilon"], at_most) if claim else NONE,
        _number(claim["bound"]["delta"], small) if claim else NONE,
        Cell(Markup(verdict_title(subject.evidence)), (subject.evidence.verdict.value,)),
    ]


def rates(subject: Subject) -> Table:
    """True-positive rates of every attack at fixed false-positive rates; the last row is what the claim allows."""
    measurements = list(subject.node["measurements"])
    asked = {row["fpr"].value: row["fpr"] for item in reversed(measurements) for row in item["tpr_at_fpr"]}
    at = sorted(asked, reverse=True)
    columns = (
        Column("Attack", ("attack",), numeric=False),
        *(Column(Markup("at {}").format(asked[fpr].number(percent)), _rate_names(fpr)) for fpr in at),
        Column("Confidence", ("confidence",)),
        Column("Non-members", ("n",)),
    )
    found = [_rates_row(measurement, at) for measurement in measurements]
    limits = [limit for fpr in at if (limit := subject.allowed(fpr)) is not None]
    found += [_allowed_row(limits)] if limits else []
    return Table(
        f"rates-{subject.index + 1}", "Members found at low false-positive rates", columns, found, subject.title
    )


def _rate_names(fpr: float) -> tuple[str, ...]:
    return tuple(f"{name}_at_{fpr!r}" for name in ("tpr", "lower", "upper"))


def _rates_row(measurement: Node, at: Sequence[float]) -> list[Cell]:
    rows = {row["fpr"].value: row for row in measurement["tpr_at_fpr"]}
    return [
        _text(measurement["attack"]),
        *(_rate(rows[fpr]) if fpr in rows else Cell(NONE.html, ("", "", "")) for fpr in at),
        _number(measurement["confidence"], rounded_percent),
        _number(measurement["nonmembers"], count),
    ]


def _rate(row: Node) -> Cell:
    """A rate and its interval, or why there is none."""
    if row["value"].value is None:
        return Cell(row["note"].text(), ("", "", ""))
    value, interval = row["value"], _interval(row)
    html = Markup('{} <span class="within">({})</span>').format(value.number(measured), interval.html)
    return Cell(html, (value.value, *interval.values))


def _allowed_row(limits: Sequence[Node]) -> list[Cell]:
    none = Cell(Markup(""), ("",))
    cells = (Cell(limit.number(percent_at_most), (limit.value, "", "")) for limit in limits)
    return [Cell.words("the most that the claim allows"), *cells, none, none]


def attacks(subject: Subject) -> Table:
    """Every attack that was run, with how many records and models it saw."""
    columns = (
        Column("Attack", ("attack",), numeric=False),
        Column("Area under the curve", ("auc",)),
        Column("Interval", ("lower", "upper")),
        Column("Members", ("members",)),
        Column("Non-members", ("nonmembers",)),
        Column("Target models", ("targets",)),
    )
    found = [
        [
            _text(item["attack"]),
            _number(item["auc"]["value"], thousandths),
            _interval(item["auc"], thousandths),
            _number(item["members"], count),
            _number(item["nonmembers"], count),
            _number(item["targets"], count),
        ]
        for item in subject.node["measurements"]
    ]
    return Table(f"attacks-{subject.index + 1}", "Attacks that were run", columns, found, subject.title)


def demonstrations(subject: Subject) -> Table:
    """A column for every canary game: the counts its bound came from, and what the bound needs to be believed."""
    games = list(subject.node["demonstrations"])
    columns = [Column("Method", ("method",), numeric=False)]
    columns += [
        Column(item["bound"]["method"].text(), (item["bound"]["method"].value,), numeric=False) for item in games
    ]
    words = next((WORDS[name] for item in games if (name := item["game"].value) in WORDS), {})
    shown = [*_DEMONSTRATION, *([_CREDIBLE] if any("credible" in item.value for item in games) else [])]
    rows = [[Cell.words(words.get(title, title)), *(cell(item) for item in games)] for title, cell in shown]
    return Table(f"games-{subject.index + 1}", "What the audit counted", columns, rows, subject.title)


def caught(subject: Subject) -> Table | None:
    """The usual faults and the chance that this audit would have refuted each; None where no audit says so."""
    if not subject.evidence.caught:
        return None
    columns = (
        Column("Usual fault", ("fault",), numeric=False),
        Column("Chance of refuting it", ("chance",)),
        Column("at least", ("lower",)),
        Column("at most", ("upper",)),
        Column("How it is known", ("note",), numeric=False),
    )
    faults = zip(subject.node["caught"], subject.evidence.caught, strict=True)
    rows = [_caught(item, known=not fault.wide) for item, fault in faults]
    return Table(f"caught-{subject.index + 1}", "What this audit would have caught", columns, rows, subject.title)


def _caught(item: Node, *, known: bool) -> list[Cell]:
    """A fault's row; where the interval of its chance tells nothing, its middle is not shown."""
    chance = item["chance"]
    if chance.value is None:
        unknown = Cell.words("not known")
        return [_text(item["name"]), unknown, unknown, unknown, Cell.words("not measured")]
    value, *limits = (_number(chance[key], likely) for key in ("value", "lower", "upper"))
    shown = value if known else Cell(Markup("not known well"), value.values)
    return [_text(item["name"]), shown, *limits, _text(chance["note"])]


def _assumes(item: Node) -> Cell:
    family = item["bound"]["assumes"]
    return Cell.words("no family of mechanisms") if family.value is None else Cell(family.shortened(), (family.value,))


def _believed(item: Node) -> Cell:
    parts = item["bound"]["assumptions"]
    if not len(parts):
        return Cell.words("nothing beyond the counts")
    lines = Markup("").join(Markup("<li>{}</li>").format(part.text()) for part in parts)
    return Cell(Markup("<ul>{}</ul>").format(lines), ("; ".join(parts.value),))


# what is counted is not always a run: one run plays many canaries, and a game of updates counts steps
WORDS = {
    "one-run": {
        "Guessed right, with the canary": "Guessed right",
        "False alarms, without the canary": "Guessed wrong",
        "of runs": "of canaries, guessed or not",
        "Runs planned": "Canaries planned",
        "Runs failed": "Canaries failed",
    },
    "updates": {"of runs": "of steps"},
}
_DEMONSTRATION: tuple[tuple[str, Callable[[Node], Cell]], ...] = (
    ("Game", lambda item: _text(item["game"])),
    ("Canary", lambda item: _text(item["canary"])),
    ("Epsilon at least", lambda item: _number(item["bound"]["epsilon"], at_least)),
    ("at confidence", lambda item: _number(item["bound"]["confidence"], rounded_percent)),
    ("at delta", lambda item: _number(item["bound"]["delta"], small)),
    ("Attainable", lambda item: _number(item["attainable"], at_most)),
    ("Guessed right, with the canary", lambda item: _number(item["counts"]["tp"], count)),
    ("of runs", lambda item: _number(item["counts"]["n_in"], count)),
    ("False alarms, without the canary", lambda item: _number(item["counts"]["fp"], count)),
    ("of runs", lambda item: _number(item["counts"]["n_out"], count)),
    ("Threshold, chosen elsewhere", lambda item: _number(item["threshold"], significant)),
    ("Runs planned", lambda item: _number(item["planned"], count)),
    ("Runs failed", lambda item: _number(item["failed"], count)),
    ("Assumes", _assumes),
    ("What must be believed", _believed),
)


def _credible(item: Node) -> Cell:
    if "credible" not in item.value:
        return Cell(NONE.html, ("",))
    ends = item["credible"]
    html = Markup("{} to {}").format(ends["lower"].number(significant), ends["upper"].number(significant))
    return Cell(html, (f"{ends['lower'].value!r} to {ends['upper'].value!r}",))


_CREDIBLE = ("A Bayesian who assumes no kind of noise would believe (information, no bound)", _credible)


def findings(subject: Subject) -> Table | None:
    """What attacks on a release disclose of single people; None where none were run."""
    if not subject.evidence.findings:
        return None
    columns = [Column("Attack", ("attack",), False), Column("Found", ("found",), False)]
    columns += [Column("Severity", ("severity",), False)]
    rows = [[_text(item[name]) for name in ("attack", "sentence", "severity")] for item in subject.node["findings"]]
    return Table(f"findings-{subject.index + 1}", "What the release gives away", columns, rows, subject.title)


def controls(subject: Subject, *, public: bool) -> Table:
    """What the experiment was tested with; what was found on real members stays inside."""
    columns = [Column("Control", ("control",), False), Column("Expected", ("expected",), False)]
    columns += [] if public else [Column("Found", ("found",), False)]
    columns += [Column("Result", ("passed",), False)]
    found = [
        [
            _text(item["name"]),
            _text(item["expected"]),
            *([] if public else [_text(item["found"])]),
            Cell(_result(item["passed"]), (item["passed"].value,)),
        ]
        for item in subject.node["controls"]
    ]
    return Table(f"controls-{subject.index + 1}", "Controls of the experiment", columns, found, subject.title)


def _result(passed: Node) -> Markup:
    shown = "passed" if passed.value else "failed"
    return Markup('<span class="result {}">{}</span>').format(shown, passed.number(lambda _: shown))


def provenance(subject: Subject) -> Table:
    """The table of provenance: where the evidence comes from, as the evidence says."""
    columns = (Column("What", ("name",), numeric=False), Column("Value", ("value",), numeric=False))
    rows = [[Cell.words(key.replace("_", " ")), _any(value)] for key, value in subject.node["provenance"].items()]
    return Table(f"provenance-{subject.index + 1}", "Provenance", columns, rows, subject.title)


def _text(node: Node) -> Cell:
    return Cell(node.text(), (node.value,))


def _any(node: Node) -> Cell:
    return Cell(node.show(), (node.value,))


def _number(node: Node, style: Callable[[float], str]) -> Cell:
    return Cell(node.number(style), ("" if node.value is None else node.value,))


def _interval(node: Node, style: Callable[[float], str] = measured) -> Cell:
    return _pair(node["lower"], " to ", node["upper"], style)


def _pair(first: Node, glue: str, second: Node, style: Callable[[float], str] = count) -> Cell:
    html = Markup("{}{}{}").format(first.number(style), glue, second.number(style))
    return Cell(html, (first.value, second.value))
