"""tacit: private machine learning from both sides.

It proves an upper bound on epsilon, demonstrates a lower one, and shows both in one report.
Names are imported on first use (PEP 562), so `import tacit` costs next to nothing and needs no torch.
"""

from importlib import import_module
from typing import Any

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
        "TacitError",
        "Unsupported",
        "Verdict",
    ),
    "loss": ("Plan", "Setting", "Theorem", "calibrate", "epsilon", "explain", "plan", "privacy_loss"),
    "train": ("Speed", "fit", "private"),
    "audits": ("Choice", "audit", "audit_mechanism", "choose", "lower_bound", "verify"),
    "study": ("attack", "bracket"),
    "reports": ("report",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = ("events",)

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
