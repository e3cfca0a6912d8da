"""Every estimator by the name of its method, for readers of stored bounds."""

from __future__ import annotations

from ...core import Adjacency, Event
from .anytime import Anytime, AnytimeCurve
from .estimators import ClopperPearson, Estimator
from .exact import Exact, ExactCurve
from .families import Curve, Family
from .one_run import OneRun, OneRunCurve
from .updates import UpdatesCurve

FREE: dict[str, type[ClopperPearson] | type[Exact] | type[OneRun] | type[Anytime]] = {
    use.method: use for use in (ClopperPearson, Exact, OneRun, Anytime)
}
FAMILIES: dict[str, type[Family]] = {
    use.method: use for use in (Curve, ExactCurve, OneRunCurve, AnytimeCurve, UpdatesCurve)
}


def estimator(method: str, *, delta: float, adjacency: Adjacency, event: Event | None) -> Estimator | None:
    """The estimator of a stored bound; None when it is not known here, or needs an event that is not there."""
    if method in FREE:
        return FREE[method](delta)
    if method in FAMILIES and event is not None:
        return FAMILIES[method](event, adjacency, delta)
    return None
