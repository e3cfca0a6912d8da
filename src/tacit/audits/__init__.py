"""Audits: games whose scores give lower bounds on epsilon that are true as often as they say."""

from .bounds.anytime import Anytime, AnytimeCurve
from .bounds.bayes import credible
from .bounds.estimators import ClopperPearson, Estimator, Limits
from .bounds.exact import Exact, ExactCurve
from .bounds.families import Curve
from .bounds.one_run import OneRun, OneRunCurve
from .bounds.updates import UpdatesCurve
from .canary import CANARIES
from .choice import Choice, choose, lower_bound
from .claims import stated
from .controls import null, planted_leak
from .demonstration import Played, demonstrate, demonstrate_once, watch
from .mechanism import audit_mechanism
from .scoring import play
from .training import audit
from .updates import demonstrate_updates
from .verification import verify
from .verified_rows import Recomputed, Verification

__all__ = [
    "Anytime",
    "AnytimeCurve",
    "CANARIES",
    "Choice",
    "ClopperPearson",
    "Curve",
    "Estimator",
    "Exact",
    "ExactCurve",
    "Limits",
    "OneRun",
    "OneRunCurve",
    "Played",
    "Recomputed",
    "UpdatesCurve",
    "Verification",
    "audit",
    "audit_mechanism",
    "choose",
    "credible",
    "demonstrate",
    "demonstrate_once",
    "demonstrate_updates",
    "lower_bound",
    "null",
    "planted_leak",
    "play",
    "stated",
    "verify",
    "watch",
]
