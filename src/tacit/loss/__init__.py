"""What a release costs: certified privacy accounting, calibration and plans."""

from .calibration import Setting, calibrate
from .clipping import Adaptive, Automatic, Clipping, Flat, PerLayer
from .dispatch import loss_of, privacy_loss
from .dynamics import NoisyDescent
from .explain import Theorem, explain
from .plan import Plan, plan
from .reading import epsilon
from .sampling import Sampling

__all__ = [
    "Adaptive",
    "Automatic",
    "Clipping",
    "Flat",
    "NoisyDescent",
    "PerLayer",
    "Plan",
    "Sampling",
    "Setting",
    "Theorem",
    "calibrate",
    "epsilon",
    "explain",
    "loss_of",
    "plan",
    "privacy_loss",
]
