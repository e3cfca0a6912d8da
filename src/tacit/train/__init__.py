"""Private training: DP-SGD with exact per-example clipping of unmodified models."""

from ..loss import Adaptive, Automatic, Flat, PerLayer
from .batch_norm import freeze_batch_norm, replace_batch_norm
from .info import StepInfo
from .loop import Trained, fit
from .models import rules
from .progress import Progress
from .project import ball
from .recipe.scattering import Scattering
from .sample.augment import Augment, flip_and_crop
from .sample.collate import Buckets
from .speed import Speed
from .step import PrivateStep, private

__all__ = [
    "Adaptive",
    "Augment",
    "Automatic",
    "Buckets",
    "Flat",
    "PerLayer",
    "PrivateCallback",
    "PrivateStep",
    "PrivateTrainer",
    "Progress",
    "Scattering",
    "Speed",
    "StepInfo",
    "Trained",
    "ball",
    "fit",
    "flip_and_crop",
    "freeze_batch_norm",
    "private",
    "replace_batch_norm",
    "rules",
]


def __getattr__(name: str) -> object:
    """Adapters are imported when they are asked for: they need the extras `hf` and `lightning`."""
    if name == "PrivateTrainer":
        from .adapters.hugging_face import PrivateTrainer

        return PrivateTrainer
    if name == "PrivateCallback":
        from .adapters.lightning import PrivateCallback

        return PrivateCallback
    raise AttributeError(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
