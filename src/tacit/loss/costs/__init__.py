"""What each event costs, by kind of event: importing this room fills the registry."""

from . import combinations, mechanisms, samplings, trainings
from .registry import loss_of, once

__all__ = ["combinations", "loss_of", "mechanisms", "once", "samplings", "trainings"]
