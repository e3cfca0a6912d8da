"""The section [audit] of a run file: which of its keys go with which kind of model, and what they may be.

Every verb that reads [audit] reads it here, before any data are read and anything is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..audits.canary import maker
from ..core import BadInput, check

TRAINED, FIT, TAKEN = "kind or make", "fit", "predict, or make with file"
"""What [model] may say: a model of ours, somebody's training, or a model that is taken as it is."""
GOES_WITH = {
    "game": (TRAINED, FIT, TAKEN),
    "confidence": (TRAINED, FIT, TAKEN),
    "runs": (TRAINED, FIT),
    "canary": (TRAINED, FIT),
    "start": (TRAINED,),
    "seconds": (FIT,),
    "isolation": (FIT,),
}
REASONS = {
    (TAKEN, "runs"): "a model that is taken is not trained again",
    (TAKEN, "canary"): "a model that is taken is not trained again",
    (TAKEN, "start"): "a model that is taken is not trained again",
    (TAKEN, "seconds"): "a model that is taken is not trained again",
    (TAKEN, "isolation"): "a model that is taken is not trained again",
    (FIT, "start"): "where a fit begins is its own affair",
    (TRAINED, "seconds"): "say how many runs",
    (TRAINED, "isolation"): "a model of ours is trained in fleets of its own",
}
GAMES = {TRAINED: "runs", FIT: "runs", TAKEN: "one-run"}
ISOLATIONS = ("auto", "process", "fleet", "ray", "none")
FEWEST = 16


@dataclass(frozen=True)
class AuditSection:
    """What [audit] says; None where it says nothing."""

    runs: int | None = None
    canary: str = "auto"
    start: str = "fresh"
    confidence: float = 0.95
    seconds: float | None = None
    isolation: str = "auto"

    @classmethod
    def of(cls, table: dict[str, Any], how: str) -> AuditSection:
        """Check the section beside a model of kind `how`."""
        for key in table:
            if how not in GOES_WITH[key]:
                homes = " or ".join(GOES_WITH[key])
                raise BadInput(
                    f"`{key}` in [audit] does not go with this [model]: {REASONS[how, key]}.",
                    fix=f"Leave it out; it goes with [model] {homes}.",
                )
        if table.get("game", GAMES[how]) != GAMES[how]:
            raise BadInput(
                f"A model of [model] {how} is audited by the game {GAMES[how]}.", fix="Leave `game` out of [audit]."
            )
        return cls(**{key: value for key, value in table.items() if key != "game"})

    def __post_init__(self) -> None:
        check.probability("confidence in [audit]", self.confidence, zero=False, one=False)
        if self.runs is not None:
            check.whole("runs in [audit]", self.runs, least=FEWEST)
        if self.seconds is not None:
            check.positive("seconds in [audit]", self.seconds)
        if self.canary != "auto" and ":" not in self.canary:
            maker(self.canary)
        if self.start not in ("fresh", "crafted"):
            raise BadInput(f"start in [audit] must be 'fresh' or 'crafted', got {self.start!r}.")
        if self.isolation not in ISOLATIONS:
            raise BadInput(f"isolation in [audit] must be one of {', '.join(ISOLATIONS)}, got {self.isolation!r}.")
