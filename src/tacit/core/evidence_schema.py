"""The published JSON Schema of evidence, in one place: `python -m tacit.core.evidence_schema > docs/schema/...`.

What a schema cannot say (that the bounds and the verdict follow from the parts) `Evidence.load` checks, and that the
numbers follow from the counts and events `tacit verify`. Keys that are not listed are allowed: later versions add.
"""

from __future__ import annotations

import json

from .adjacency import Adjacency
from .bound import Side
from .evidence import SCHEMA, Verdict
from .finding import SEVERITIES
from .json_text import Json

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}
COUNT: Json = {"type": "integer", "minimum": 0}
EPSILON: Json = {"type": ["number", "null"], "minimum": 0, "description": "null: no finite value"}
SCALAR: Json = {"type": ["string", "number", "boolean", "null"]}


def schema() -> Json:
    """JSON Schema, draft 2020-12, of what `Evidence.save` writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "description": "Evidence about one model's privacy loss, from both sides.",
        **_object(
            schema={"const": SCHEMA},
            subject=TEXT,
            verdict={"enum": [verdict.value for verdict in Verdict]},
            sentence=TEXT,
            bounds=_list("bound"),
            attainable=EPSILON,
            claim={"anyOf": [_ref("claim"), {"type": "null"}]},
            demonstrations=_list("demonstration"),
            measurements=_list("measurement"),
            utility={"type": "object", "additionalProperties": {"type": ["number", "null"]}},
            controls=_list("control"),
            not_covered={"type": "array", "items": TEXT},
            threat={"type": "object", "additionalProperties": TEXT},
            provenance={"type": "object", "additionalProperties": SCALAR},
            optional={"exposures": _list("exposure"), "risk": _list("bin"), "groups": _list("group"),
                      "budget": _list("spent"), "caught": _list("fault"), "histograms": _list("histogram"),
                      "findings": _list("finding"),
                      "described": {"type": "object", "additionalProperties": TEXT}},
        ),
        "$defs": _definitions(),
    }  # fmt: skip


def _definitions() -> Json:
    confident = {**SHARE, "exclusiveMinimum": 0}
    return {
        "bound": _object(
            epsilon=EPSILON, delta=SHARE, side={"enum": [side.value for side in Side]}, confidence=confident,
            method=TEXT, adjacency={"enum": [item.value for item in Adjacency]}, unit=TEXT,
            assumes={"type": ["string", "null"]}, assumptions={"type": "array", "items": TEXT},
        ),
        "claim": _object(
            bound=_ref("bound"), event={"anyOf": [_ref("event"), {"type": "null"}]}, frontier=_points(2)
        ),
        "event": _object(type=TEXT),
        "counts": _object(tp=COUNT, fp=COUNT, n_in=COUNT, n_out=COUNT, optional={"levels": _points(2)}),
        "demonstration": _object(
            bound=_ref("bound"), counts=_ref("counts"), attainable=EPSILON, threshold={"type": ["number", "null"]},
            game=TEXT, canary=TEXT, planned=COUNT, failed=COUNT,
            optional={"credible": _object(lower=NUMBER, upper=NUMBER)},
        ),
        "estimate": _object(
            value={"type": ["number", "null"]}, lower=NUMBER, upper=NUMBER, n=COUNT, optional={"note": TEXT}
        ),
        "rate": {"allOf": [_ref("estimate"), _object(fpr=SHARE)]},
        "measurement": _object(
            attack=TEXT, confidence=confident, auc=_ref("estimate"), tpr_at_fpr=_list("rate"), members=COUNT,
            nonmembers=COUNT, targets=COUNT, roc=_points(4),
        ),
        "control": _object(name=TEXT, expected=TEXT, found=TEXT, passed={"type": "boolean"}),
        "exposure": _object(record=COUNT, selected_by=NUMBER, confidence=confident, memorisation=_ref("estimate")),
        "bin": _object(lower=NUMBER, upper=NUMBER, records=COUNT),
        "group": _object(group=TEXT, advantage=_ref("estimate"), confidence=confident, p_value=SHARE),
        "fault": _object(
            name=TEXT,
            chance={"anyOf": [{"allOf": [_ref("estimate"), _object(confidence=confident)]}, {"type": "null"}]},
        ),
        "histogram": _object(
            name=TEXT, edges={"type": "array", "items": NUMBER}, inside={"type": "array", "items": COUNT},
            outside={"type": "array", "items": COUNT}, n_in=COUNT, n_out=COUNT,
        ),
        "spent": _object(step=COUNT, epsilon=EPSILON),
        "finding": _object(attack=TEXT, sentence=TEXT, severity={"enum": list(SEVERITIES)}, figures={"type": "object"}),
    }  # fmt: skip


def _object(*, optional: Json | None = None, **required: Json) -> Json:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _list(name: str) -> Json:
    return {"type": "array", "items": _ref(name)}


def _points(length: int) -> Json:
    return {"type": "array", "items": {"type": "array", "items": NUMBER, "minItems": length, "maxItems": length}}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
