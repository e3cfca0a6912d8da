"""Exact per-example clipping of unmodified models: capture, rules, norms, clipped sums."""

from . import convolution, expansions  # noqa: F401  they register their rules
from .clipper import Clipper
from .compiled import Compiled
from .probe import Structure, probe
from .sums import Clipped, Forward, clipped_sum
from .weigh import Weigh

__all__ = ["Clipped", "Clipper", "Compiled", "Forward", "Structure", "Weigh", "clipped_sum", "probe"]
