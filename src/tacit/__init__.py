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
_OPEN_ROOMS = ("train",)
_EXTRAS = {"torch": "torch", "cryptography": "torch", "safetensors": "torch", "sklearn": "erm"}

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
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
