"""Numbers for the continuations of a run, so that one charge pays for one run (soundness rule 25)."""

from __future__ import annotations

from typing import Any

from ..core import check
from ..core.errors import BadInput, Mismatch

Report = dict[str, Any]


def report(before: list[Report], number: int | None, step: int, mark: str, last: bool) -> Report | None:
    """What to record, given what was recorded; None when it is recorded already. Raises Mismatch on a second run."""
    step = check.whole("step", step, least=0)
    if not isinstance(mark, str) or len(mark) > 200:
        raise BadInput("mark must be a text of at most 200 characters.")
    if any(item["last"] for item in before):
        raise Mismatch("This run has ended; nothing goes on from it.", fix="Begin a new run, which is charged anew.")
    highest = max((item["number"] for item in before), default=0)
    if number is not None and number != highest:
        raise Mismatch("This run was taken up elsewhere since.", fix="Only the latest continuation goes on.")
    if any(item["step"] == step and item["mark"] != mark for item in before):
        raise Mismatch("This run went on otherwise before, from the same step.", fix="Begin a new run, charged anew.")
    new = {"number": highest + 1 if number is None else number, "step": step, "mark": mark, "last": bool(last)}
    known = any(all(item[name] == new[name] for name in new) for item in before)
    return None if known else new


def latest(before: list[Report], new: Report | None) -> int:
    """The number that the caller has now."""
    return int(new["number"]) if new is not None else int(max(item["number"] for item in before))
