"""`report`: evidence to one self-contained page, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from ..core import BadInput, Evidence, Verdict
from ..core.files import written
from . import assessment, card, certificate, comparison, risk, tables, words
from .chart import Chart, live
from .comparison_chart import leakage_chart, utility_chart
from .deployments import deployments
from .dots import dots
from .histogram import histogram
from .public import left_out, public_version
from .risk_chart import budget_chart, group_chart, risk_chart
from .roc_chart import roc_chart
from .roc_table import roc_table
from .script import bundle, policy
from .strip_chart import strip_chart
from .subject import Subject, subjects_of
from .teachers import teachers


@dataclass(frozen=True)
class Page:
    """A page that was written: where, and what it says. `bytes` is its size."""

    path: Path
    sentence: str
    verdict: Verdict
    bytes: int
    _still: str = field(repr=False, default="")

    def _repr_html_(self) -> str:
        """The page without its script, framed and shut in, for a notebook."""
        frame = 'sandbox="allow-downloads" width="100%" height="720" style="border:1px solid #8888"'
        return f'<iframe title="tacit report" {frame} srcdoc="{escape(self._still)}"></iframe>'


def report(
    evidence: Evidence | Iterable[Evidence],
    path: str | Path = "report.html",
    *,
    public: bool = False,
    records: bool = False,
) -> Page:
    """Write what one or several evidences say as one HTML page that needs no network, no script and no colour.

    Guarantee: equal evidence gives an equal page; every number on it is a number of the evidence's JSON and carries its
    place there. `public` leaves out everything computed on real members without noise; other pages are marked internal.
    Caller ensures: an internal page stays inside; it is not differentially private.
    """
    evidences = _checked(evidence, public=public, records=records)
    path = _writable(path)
    shown = [public_version(item) for item in evidences] if public else evidences
    context = _context(evidences, shown, public=public, records=records)
    script = bundle()
    whole = _render(context, script)
    written(path, whole, 0o600 if records else 0o666)  # which records stand out tells who was a member
    return Page(path, context["sentence"], context["verdict"], len(whole.encode()), _render(context, None))


def _checked(evidence: Evidence | Iterable[Evidence], *, public: bool, records: bool) -> list[Evidence]:
    evidences = list(evidence) if isinstance(evidence, Iterable) else [evidence]
    if not evidences or not all(isinstance(item, Evidence) for item in evidences):
        raise BadInput("report takes one Evidence or several.", fix="Read a file with Evidence.load(path).")
    if public and records:
        raise BadInput("A public page cannot show records.", fix="Give public=True or records=True, not both.")
    return evidences


def _writable(path: str | Path) -> Path:
    """Refuse a bad path before any work is done."""
    path = Path(path)
    if path.is_dir() or not path.name:
        raise BadInput("The report's path is a folder.", fix="Give the name of a file, such as report.html.")
    if not path.parent.is_dir():
        raise BadInput("The report's folder does not exist.", fix="Make it first, or give another path.")
    return path


def _context(
    evidences: Sequence[Evidence], shown: Sequence[Evidence], *, public: bool, records: bool
) -> dict[str, Any]:
    subjects = subjects_of(shown)
    several = len(subjects) > 1
    charts = [strip_chart(subjects)]
    charts += [utility_chart(subjects), leakage_chart(subjects)] if several else []
    models = [_model(subject, public=public) for subject in subjects]
    charts += [model[name] for model in models for name in ("roc", "risk_chart", "group_chart", "budget_chart")]
    drawn = [chart for chart in charts if chart is not None]
    return {
        "public": public,
        "records": records,
        "subjects": subjects,
        "models": models,
        "charts": {chart.name: _drawn(chart) for chart in drawn},
        "live": _script_json(live(drawn)),
        "bounds": tables.bounds(subjects),
        "deployments": deployments(subjects),
        "comparison": comparison.comparison_table(subjects) if several else None,
        "left_out": list(dict.fromkeys(part for item in evidences for part in left_out(item))) if public else [],
        "questions": assessment.questions(subjects, public=public),
        "sign_off": certificate.SIGN_OFF,
        "not_promised": assessment.NOT_PROMISED,
        "sentence": _sentence(subjects, public=public),
        "verdict": words.worst([subject.evidence.verdict for subject in subjects]),
    }


def _model(subject: Subject, *, public: bool) -> dict[str, Any]:
    """The parts of one model's article."""
    return {
        "subject": subject,
        "title": words.verdict_title(subject.evidence),
        "finding": words.finding(subject.evidence, public=public),
        "why": words.why(subject.evidence),
        "name": certificate.title(subject),
        "plain_name": certificate.plain_title(subject),
        "facts": certificate.facts(subject),
        "told": certificate.told(subject),
        "dots": dots(subject),
        "histogram": histogram(subject),
        "card": card.claim_rows(subject),
        "teachers": teachers(subject),
        "roc": roc_chart(subject),
        "roc_table": roc_table(subject),
        "rates": tables.rates(subject),
        "attacks": tables.attacks(subject),
        "demonstrations": tables.demonstrations(subject),
        "caught": tables.caught(subject),
        "findings": tables.findings(subject),
        "controls": tables.controls(subject, public=public),
        "provenance": tables.provenance(subject),
        "utility": comparison.utility_table(subject),
        "groups": risk.groups(subject),
        "group_chart": group_chart(subject),
        "risk": risk.distribution(subject),
        "risk_chart": risk_chart(subject),
        "exposures": risk.exposures(subject),
        "budget": risk.budget(subject),
        "budget_chart": budget_chart(subject),
    }


def _drawn(chart: Chart) -> dict[str, object]:
    return {"chart": chart, "wide": chart.static("wide"), "narrow": chart.static("narrow")}


def _sentence(subjects: Sequence[Subject], *, public: bool) -> str:
    found = [words.finding(subject.evidence, public=public) for subject in subjects]
    if len(found) == 1:
        return found[0]
    return " ".join(f"{subject.label}: {text}" for subject, text in zip(subjects, found, strict=True))


def _script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("tacit.reports", "templates")
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _render(context: dict[str, object], script: str | None) -> str:
    style = (resources.files(__package__) / "templates" / "page.css").read_text(encoding="utf-8")
    template = _environment().get_template("page.html")
    return template.render(context, style=style, script=script, policy=policy(style, script))
