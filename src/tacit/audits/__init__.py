"""Audits: games whose scores give lower bounds on epsilon that are true as often as they say."""

from .canary import CANARIES
from .choice import Choice, choose, lower_bound
from .claims import stated
from .controls import null, planted_leak
from .demonstration import demonstrate
from .estimators import ClopperPearson, Estimator, Limits
from .families import Curve
from .game import play
from .mechanism import audit_mechanism
from .training import audit
from .verification import Recomputed, Verification, verify

__all__ = [
    "CANARIES",
    "Choice",
    "ClopperPearson",
    "Curve",
    "Estimator",
    "Limits",
    "Recomputed",
    "Verification",
    "audit",
    "audit_mechanism",
    "choose",
    "demonstrate",
    "lower_bound",
    "null",
    "planted_leak",
    "play",
    "stated",
    "verify",
]
