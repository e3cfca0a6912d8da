"""Evidence as JSON, and back: one short function per part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import check
from .bound import Bound
from .errors import BadInput, TacitError
from .events import Event
from .evidence import Claim, Control, Counts, Demonstration, Evidence, Measurement
from .fault import Fault
from .finding import Finding
from .histogram import Histogram
from .interval import Estimate, finite
from .json_text import Json
from .risk import Bin, Exposure, GroupRisk, Spent
from .schema_check import misfit

PARTS: Json = {"exposures": Exposure, "risk": Bin, "groups": GroupRisk, "budget": Spent, "caught": Fault,
                         "histograms": Histogram, "findings": Finding}  # fmt: skip
"""Lists that evidence of earlier versions does not have."""
FORMERLY = {"untested": "uninformative"}
"""What evidence of earlier versions says instead of a verdict."""


def encode(evidence: Evidence) -> Json:
    """Everything but the scores of records; verdict, sentence and bounds are derived and written for the reader."""
    return {
        "subject": evidence.subject,
        "verdict": evidence.verdict.value,
        "sentence": evidence.sentence,
        "bounds": [bound.to_json() for bound in evidence.bounds],
        "attainable": finite(evidence.attainable),
        "claim": None if evidence.claim is None else _claim(evidence.claim),
        "demonstrations": [_demonstration(item) for item in evidence.demonstrations],
        "measurements": [_measurement(item) for item in evidence.measurements],
        "utility": _plain(evidence.utility),
        "controls": [dict(vars(control)) for control in evidence.controls],
        "not_covered": list(evidence.not_covered),
        "threat": dict(evidence.threat),
        "provenance": _plain(evidence.provenance),
        **{name: [item.to_json() for item in getattr(evidence, name)] for name in PARTS},
        "described": dict(evidence.described),
    }


def decode(data: Mapping[str, Any], schema: str) -> Evidence:
    """Read evidence; a newer or foreign schema, or a damaged part, is refused with one sentence."""
    found = data.get("schema")
    if found != schema:
        raise BadInput(f"The file has schema {str(found)[:60]!r}; this version reads {schema!r}.")
    from .evidence_schema import schema as published

    try:
        problem = misfit(dict(data), published())
    except RecursionError:
        problem = "values nest too deep"
    if problem:
        raise BadInput(f"The evidence is damaged: {problem}.")
    try:
        evidence = Evidence(
            subject=str(data["subject"]),
            claim=None if data["claim"] is None else _read_claim(data["claim"]),
            demonstrations=tuple(_read_demonstration(item) for item in data["demonstrations"]),
            measurements=tuple(_read_measurement(item) for item in data["measurements"]),
            utility={name: float(value) for name, value in data["utility"].items() if value is not None},
            controls=tuple(_read_control(item) for item in data["controls"]),
            not_covered=tuple(data["not_covered"]),
            threat=dict(data["threat"]),
            provenance=dict(data["provenance"]),
            described={str(key): str(value) for key, value in data.get("described", {}).items()},
            **{name: tuple(kind.from_json(item) for item in data.get(name, ())) for name, kind in PARTS.items()},
        )
        stated = [Bound.from_json(item) for item in data["bounds"]]
        verdict = evidence.verdict.value
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, TacitError) as error:
        reason = error.message if isinstance(error, TacitError) else "a part is missing or of the wrong type"
        raise BadInput(f"The evidence is damaged: {reason.rstrip('.')}.") from None
    if stated != list(evidence.bounds) or data.get("verdict") not in (verdict, FORMERLY.get(verdict)):
        raise BadInput("The evidence is damaged: its bounds or verdict do not follow from its parts.")
    return evidence


def _claim(claim: Claim) -> dict[str, object]:
    event = None if claim.event is None else claim.event.to_json()
    return {"bound": claim.bound.to_json(), "event": event, "frontier": [list(point) for point in claim.frontier]}


def _read_claim(data: Json) -> Claim:
    event = None if data["event"] is None else Event.from_json(data["event"])
    return Claim(Bound.from_json(data["bound"]), event, tuple((float(x), float(y)) for x, y in data["frontier"]))


def _demonstration(item: Demonstration) -> dict[str, object]:
    told = {key: value for key, value in vars(item).items() if key != "credible" or value is not None}
    return {
        **_plain(told),
        "bound": item.bound.to_json(),
        "counts": item.counts.to_json(),
        "attainable": finite(item.attainable),
        "threshold": finite(item.threshold),
        **({} if item.credible is None else {"credible": dict(zip(("lower", "upper"), item.credible, strict=True))}),
    }


def _read_demonstration(data: Json) -> Demonstration:
    changed = {
        "bound": Bound.from_json(data["bound"]),
        "counts": Counts.from_json(data["counts"]),
        "attainable": _number(data["attainable"]),
        "threshold": _number(data["threshold"]),
        "planned": check.whole("planned", data["planned"], least=0),
        "failed": check.whole("failed", data["failed"], least=0),
    }
    if "credible" in data:
        changed["credible"] = (float(data["credible"]["lower"]), float(data["credible"]["upper"]))
    return Demonstration(**{**data, **changed})


def _measurement(item: Measurement) -> dict[str, object]:
    return {
        **vars(item),
        "confidence": item.auc.confidence,
        "auc": item.auc.to_json(),
        "tpr_at_fpr": [{"fpr": fpr, **estimate.to_json()} for fpr, estimate in item.tpr_at_fpr],
        "roc": [list(point) for point in item.roc],
    }


def _read_measurement(data: Json) -> Measurement:
    confidence = float(data["confidence"])
    rest = {key: value for key, value in data.items() if key != "confidence"}
    changed = {
        "auc": Estimate.from_json(data["auc"], confidence),
        "tpr_at_fpr": tuple((float(row["fpr"]), Estimate.from_json(row, confidence)) for row in data["tpr_at_fpr"]),
        "roc": tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in data["roc"]),
    }
    return Measurement(**{**rest, **changed})


def _read_control(data: Json) -> Control:
    if not isinstance(data["passed"], bool):
        raise BadInput("a control has passed or not")
    return Control(**data)


def _plain(table: Mapping[str, object]) -> dict[str, object]:
    """Numpy's numbers as Python's, so that JSON can hold them; null where there is no finite value."""
    items = {key: value.item() if isinstance(value, np.generic) else value for key, value in table.items()}
    return {key: finite(value) if isinstance(value, float) else value for key, value in items.items()}


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)
