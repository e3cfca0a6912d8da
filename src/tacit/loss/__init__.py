"""What a release costs: certified privacy accounting, calibration and plans."""

from .calibration import Setting, calibrate
from .dispatch import loss_of, privacy_loss
from .plan import Plan, plan
from .reading import epsilon

__all__ = ["Plan", "Setting", "calibrate", "epsilon", "loss_of", "plan", "privacy_loss"]
