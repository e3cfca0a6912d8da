"""The five nouns every room speaks, and the small things they are made of."""

from .adjacency import Adjacency
from .answer import Answer
from .bound import Bound, Side
from .charger import AnswerStore, Charger, Receipt, Scoped
from .errors import (
    BadInput,
    BudgetExceeded,
    Mismatch,
    MissingExtra,
    NotFinished,
    PrivacyWarning,
    SlowWarning,
    TacitError,
    Unsupported,
)
from .events import Event
from .evidence import Claim, Control, Counts, Demonstration, Evidence, Measurement, Verdict
from .interval import Estimate, Interval
from .observations import Observations
from .privacy_loss import PrivacyLoss
from .proportion import clopper_pearson, difference_limit, fewer_limits, lower_proportion, upper_proportion
from .randomness import Source, source
from .resolution import Resolution
from .risk import Bin, Exposure, GroupRisk, Spent
from .roc import Roc
from .scores import Calibration, Evaluation, Scores

__all__ = [
    "Adjacency",
    "Answer",
    "AnswerStore",
    "BadInput",
    "Bin",
    "Bound",
    "BudgetExceeded",
    "Calibration",
    "Charger",
    "Claim",
    "Control",
    "Counts",
    "Demonstration",
    "Estimate",
    "Evaluation",
    "Event",
    "Evidence",
    "Exposure",
    "GroupRisk",
    "Interval",
    "Measurement",
    "Mismatch",
    "MissingExtra",
    "NotFinished",
    "Observations",
    "PrivacyLoss",
    "PrivacyWarning",
    "Receipt",
    "Resolution",
    "Roc",
    "Scoped",
    "Scores",
    "Side",
    "SlowWarning",
    "Source",
    "Spent",
    "TacitError",
    "Unsupported",
    "Verdict",
    "clopper_pearson",
    "difference_limit",
    "fewer_limits",
    "lower_proportion",
    "source",
    "upper_proportion",
]
