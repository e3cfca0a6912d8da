"""tacit: private machine learning from both sides.

It proves an upper bound on epsilon, demonstrates a lower one, and shows both in one report.
Names are imported on first use (PEP 562), so `import tacit` costs next to nothing and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_ROOMS = {
    "core": (
        "Adjacency",
        "BadInput",
        "Bound",
        "BudgetExceeded",
        "Estimate",
        "Event",
        "Evidence",
        "Interval",
        "Mismatch",
        "MissingExtra",
        "NotFinished",
        "Observations",
        "PrivacyLoss",
        "PrivacyWarning",
        "Scores",
        "SlowWarning",
        "TacitError",
        "Unsupported",
        "Verdict",
    ),
    "data": ("Column", "Schema"),
    "ledger": ("Ledger",),
    "query": ("Table",),
    "loss": ("Plan", "Setting", "Theorem", "calibrate", "epsilon", "explain", "plan", "privacy_loss"),
    "pate": ("PATE",),
    "train": ("Speed", "fit", "private"),
    "audits": ("Choice", "audit_mechanism", "choose", "lower_bound", "verify"),
    "study": ("attack", "audit", "bracket", "search"),
    "reports": ("report",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = ("events", "mechanism", "pate")
_OPEN_ROOMS = ("disclosure", "erm", "query", "train")
_EXTRAS = {
    "torch": "torch",
    "cryptography": "torch",
    "safetensors": "torch",
    "sklearn": "erm",
    "narwhals": "tables",
    "ibis": "query",
}

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


if TYPE_CHECKING:  # what type checkers and editors see; a test holds it equal to the names above
    from . import disclosure as disclosure
    from . import erm as erm
    from . import events as events
    from . import mechanism as mechanism
    from . import pate as pate
    from . import query as query
    from . import train as train
    from .audits import Choice as Choice
    from .audits import audit_mechanism as audit_mechanism
    from .audits import choose as choose
    from .audits import lower_bound as lower_bound
    from .audits import verify as verify
    from .core import Adjacency as Adjacency
    from .core import BadInput as BadInput
    from .core import Bound as Bound
    from .core import BudgetExceeded as BudgetExceeded
    from .core import Estimate as Estimate
    from .core import Event as Event
    from .core import Evidence as Evidence
    from .core import Interval as Interval
    from .core import Mismatch as Mismatch
    from .core import MissingExtra as MissingExtra
    from .core import NotFinished as NotFinished
    from .core import Observations as Observations
    from .core import PrivacyLoss as PrivacyLoss
    from .core import PrivacyWarning as PrivacyWarning
    from .core import Scores as Scores
    from .core import SlowWarning as SlowWarning
    from .core import TacitError as TacitError
    from .core import Unsupported as Unsupported
    from .core import Verdict as Verdict
    from .data import Column as Column
    from .data import Schema as Schema
    from .ledger import Ledger as Ledger
    from .loss import Plan as Plan
    from .loss import Setting as Setting
    from .loss import Theorem as Theorem
    from .loss import calibrate as calibrate
    from .loss import epsilon as epsilon
    from .loss import explain as explain
    from .loss import plan as plan
    from .loss import privacy_loss as privacy_loss
    from .pate import PATE as PATE
    from .query import Table as Table
    from .reports import report as report
    from .study import attack as attack
    from .study import audit as audit
    from .study import bracket as bracket
    from .study import search as search
    from .train import Speed as Speed
    from .train import fit as fit
    from .train import private as private
else:

    def __getattr__(name: str) -> object:
        if name not in _HOME and name not in _MODULES + _OPEN_ROOMS:
            raise AttributeError(f"module 'tacit' has no attribute {name!r}")
        try:
            module = import_module(f".{_HOME.get(name, name)}", __name__)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in _EXTRAS:
                raise
            from .core.errors import MissingExtra

            raise MissingExtra(_EXTRAS[missing]) from None
        value = getattr(module, name) if name in _HOME else module
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
