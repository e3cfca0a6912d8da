"""Private training: DP-SGD with exact per-example clipping of unmodified models."""

from .loop import Trained, fit
from .models import replace_batch_norm, rules
from .speed import Speed
from .step import PrivateStep, StepInfo, private

__all__ = ["PrivateStep", "Speed", "StepInfo", "Trained", "fit", "private", "replace_batch_norm", "rules"]
