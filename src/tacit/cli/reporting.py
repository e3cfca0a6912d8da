"""Verbs that show: report, quickstart."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import BadInput
from ..core.evidence import Evidence
from ..core.json_text import Json
from ..core.run_folder import run_folder
from .app import AGAIN, SEED, STATUS_OF_VERDICT, Result, assumed, note, verb
from .inputs import require, seeded


@verb("report")
def report(
    evidence: Annotated[list[str], typer.Argument(metavar="EVIDENCE", help="Evidence JSON files, one or several.")],
    out: Annotated[str, typer.Option(help="The page.")] = "report.html",
    pdf: Annotated[str | None, typer.Option(metavar="FILE", help="Also print to PDF (needs Chromium).")] = None,
    public: Annotated[bool, typer.Option("--public", help="Leave out what was measured on real members.")] = False,
    records: Annotated[bool, typer.Option("--records", help="Include records at risk: a secret page.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> Result:
    """Write one self-contained page from evidence files."""
    from ..reports import print_pdf
    from ..reports import report as write

    if public and records:
        raise BadInput("A page is --public or has --records, not both.")
    found = [Evidence.load(path) for path in evidence]
    page = write(found, out, public=public, records=records)
    printed = None if pdf is None else str(print_pdf(page.path, pdf))
    if records and not any(item.exposures for item in found):
        note("No records at risk are on the page: the evidence names none. An attack with 16 reference models may.")
    if open_ and not webbrowser.open(Path(page.path).resolve().as_uri()):
        note(f"No browser was found; open {page.path} by hand.")
    data: Json = {"page": str(page.path), "sentence": page.sentence, "verdict": str(page.verdict)}
    data |= {"bytes": page.bytes} | ({} if printed is None else {"pdf": printed})
    rows = [("page", str(page.path)), *([] if printed is None else [("pdf", printed)]), ("verdict", str(page.verdict))]
    return Result(data, rows, [page.sentence])


@verb("quickstart")
def quickstart(
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the report and the evidence go.")] = "tacit-quickstart",
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """The whole flow on embedded data: train a plain and a private model, attack, audit and report."""
    for module in ("torch", "sklearn", "safetensors", "cryptography", "altair", "vl_convert"):
        require(module, "quickstart")
    from ..reports.engine import engine
    from ..study.quickstart import quickstart as run

    engine()
    with run_folder(out, "quickstart", again=again) as held:
        outcome = run(held.results, rng=seeded(seed), note=note)
        held.commit()
    folder = held.final
    both = {"plain": outcome.plain, "private": outcome.private}
    data = {
        "report": str(folder / outcome.page.name),
        "evidence": [str(folder / f"{name}.json") for name in both],
        "sentence": outcome.sentence,
        "models": [_model(name, evidence) for name, evidence in both.items()],
    }
    lines = [f"{name}: {evidence.sentence}" for name, evidence in both.items()]
    lines += [text for item in both.values() if item.upper is not None for text in assumed(item.upper.assumptions)]
    status = max(STATUS_OF_VERDICT[evidence.verdict.value] for evidence in both.values())
    return Result(data, [("report", str(folder / outcome.page.name))], lines, status)


def _model(name: str, evidence: Evidence) -> Json:
    from ..core.sentence import strongest

    best = strongest(evidence)
    rows = [] if best is None else [{"fpr": fpr, **found.to_json()} for fpr, found in best[0].tpr_at_fpr]
    return {
        "name": name,
        "accuracy": evidence.utility.get("test accuracy"),
        "verdict": evidence.verdict.value,
        "lower": None if evidence.lower is None else evidence.lower.bound.to_json(),
        "upper": None if evidence.upper is None else evidence.upper.to_json(),
        "attainable": evidence.to_json()["attainable"],
        "attack": None if best is None else best[0].attack,
        "tpr_at_fpr": rows,
    }
