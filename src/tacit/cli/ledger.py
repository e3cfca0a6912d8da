"""The verb ledger: make, show, verify and export a budget of privacy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import BadInput
from ..core.files import text as read_text
from ..core.files import written
from ..core.interval import finite
from ..core.json_text import Json, parsed
from ..core.shown import aligned, at_most, number, remains, small
from .app import DONE, REFUTED, Result, assumed, verb
from .inputs import read_event, require

if TYPE_CHECKING:
    from ..ledger import Chain, Ledger

group = typer.Typer(
    name="ledger",
    help="Keep a budget of privacy that outlives its process: a file, or postgresql://user@host/name. "
    "Every verb below takes --json.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
RECEIPT_MOST = 2**26
"""Characters of a receipt on standard input."""
Place = Annotated[str, typer.Argument(metavar="URL", help="A file, or postgresql://user@host/name.")]


def command() -> object:
    """The command with its own verbs."""
    return typer.main.get_command(group)


@verb("init", group, "Make a ledger; what it counts for is fixed from then on.")
def init(
    url: Place,
    epsilon: Annotated[float, typer.Option(help="The budget's epsilon.")],
    unit: Annotated[str, typer.Option(help="Whose privacy counts: record, user, household.")],
    delta: Annotated[float, typer.Option(help="The budget's delta; 0 counts pure releases only.")] = 0.0,
    adjacency: Annotated[str, typer.Option(help="add-remove, replace or zero-out.")] = "add-remove",
    stated: Annotated[
        float | None, typer.Option(help="The part of delta for events that state a delta (0.15 unless given).")
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="An event of a planned ledger, in JSON; give it once for each."),
    ] = None,
) -> Result:
    """Make a ledger."""
    require("sqlalchemy", "ledger")
    from ..ledger import Ledger

    more: Json = {} if stated is None else {"stated": stated}
    if event:
        more |= {"composition": "planned", "events": [read_event(path) for path in event]}
    return _told(Ledger.create(url, epsilon=epsilon, delta=delta, unit=unit, adjacency=adjacency, **more))


@verb("show", group, "Say what was spent, by whom, and what remains.")
def show(
    url: Place,
    plot: Annotated[str | None, typer.Option(metavar="F", help="Write a chart of spending (SVG).")] = None,
) -> Result:
    """Say what was spent and what remains."""
    if plot is not None and Path(plot).suffix.lower() != ".svg":
        raise BadInput(f"The chart must end in .svg, got {Path(plot).name}.")
    found = opened(url)
    if plot is not None:
        from ..ledger.shown import chart

        written(Path(plot), chart(found))
    return _told(found)


@verb("verify", group, "Check the whole chain, or a receipt's charge.")
def verify(
    url: Place,
    receipt: Annotated[
        str | None,
        typer.Option(
            metavar="R",
            help="JSON of a receipt, of evidence, or of an export: a file, the text itself, or - for standard input.",
        ),
    ] = None,
) -> Result:
    """Check the whole chain."""
    chain = opened(url).verify(None if receipt is None else _receipt(receipt))
    data = {"ok": chain.ok, "entries": chain.entries, "head": chain.head, "first_bad": chain.first_bad}
    rows = [("chain", _whole(chain)), ("entries", str(chain.entries)), ("head", chain.head)]
    return Result({**data, "problem": chain.problem}, rows, status=DONE if chain.ok else REFUTED)


@verb("export", group, "Write the whole ledger as JSON, for a file elsewhere.")
def export(url: Place, out: Annotated[str, typer.Option(metavar="F", help="The file to write.")]) -> Result:
    """Write the whole ledger as one JSON file."""
    found = opened(url)
    chain, kept = found.verify(), found.rows()  # others may charge meanwhile: what is exported ends here
    body = {"schema": "tacit.ledger-export/1", **_data(found), "chain": kept, "ok": chain.ok}
    body |= {"head": kept[-1]["hash"], "entries": [item for item in body["entries"] if item["seq"] < len(kept)]}
    written(Path(out), json.dumps(body, allow_nan=False, indent=1) + "\n")
    data = {"out": out, "entries": chain.entries, "head": chain.head, "ok": chain.ok}
    rows = [("written", out), ("chain", _whole(chain)), ("entries", str(chain.entries)), ("head", chain.head)]
    return Result(data, rows)


@verb("allot", group, "Give an analyst or a purpose a part.")
def allot(
    url: Place,
    epsilon: Annotated[float, typer.Option(help="How much of the budget.")],
    analyst: Annotated[str, typer.Option(help="For whom.")] = "",
    purpose: Annotated[str, typer.Option(help="For what.")] = "",
) -> Result:
    """Limit an analyst, a purpose, or both together, to a part of the budget."""
    found = opened(url)
    found.allot(epsilon, analyst=analyst, purpose=purpose)
    return _told(found)


def opened(url: str) -> Ledger:
    """The ledger at a URL; one sentence where there is none."""
    require("sqlalchemy", "ledger")
    from ..ledger import Ledger

    return Ledger(url)


def _whole(chain: Chain) -> str:
    return "whole" if chain.ok else f"broken: {chain.problem}"


def _receipt(given: str) -> Json:
    import sys

    inline = given.lstrip().startswith("{")
    text = sys.stdin.read(RECEIPT_MOST) if given == "-" else given if inline else read_text(Path(given))
    try:
        found: Json = dict(parsed(text, "The receipt").items())
    except (ValueError, AttributeError):
        raise BadInput("The receipt cannot be read.", fix="Give the JSON of a receipt: seq and head.") from None
    return found


def _data(found: Ledger) -> Json:
    terms = found.terms
    return {
        "url": found.url,
        "unit": terms.unit,
        "adjacency": terms.adjacency.value,
        "composition": terms.composition,
        "budget": {"epsilon": terms.epsilon, "delta": terms.delta},
        "spent": found.spent().to_json(),
        "so_far": finite(found.so_far()),
        "remaining": found.remaining(),
        "allotments": found.allotments(),
        "entries": [entry.to_json() for entry in found.entries()],
        "head": found.head(),
    }


def _told(found: Ledger) -> Result:
    data, terms = _data(found), found.terms
    later = ", later ones included" if data["entries"] else ": none was charged yet"
    rows = [
        ("ledger", f"{data['url']}: one {terms.unit}, {terms.adjacency.value}, {terms.composition}"),
        ("budget", f"epsilon {number(terms.epsilon)}, delta {small(terms.delta)}"),
        ("proven", f"epsilon {at_most(data['spent']['epsilon'], 4)} for all releases together{later}"),
        ("spent so far", f"{number(data['so_far'])} (a reading, not a claim)"),
        ("remaining", f"{remains(data['remaining'])} (the largest pure epsilon that is still accepted)"),
        ("head", data["head"]),
    ]
    entries = [
        (str(item["seq"]), item["time"][:19], item["purpose"] or "-", item["analyst"] or "-", item["key"],
         item["event"]["type"])
        for item in data["entries"]
    ]  # fmt: skip
    names = ("entry", "time (UTC)", "purpose", "analyst", "key", "event")
    shown = aligned(names, entries, right=(0,)) if entries else []
    parts = [
        f"allotted to {' for '.join(filter(None, (a['analyst'], a['purpose'])))}: {number(a['epsilon'])}, "
        f"{remains(a['remaining'])} remains"
        for a in data["allotments"]
    ]
    return Result(data, rows, [*parts, *(["", *shown, ""] if shown else []), *assumed(data["spent"]["assumptions"])])
