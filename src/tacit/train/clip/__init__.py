"""Exact per-example clipping of unmodified models: capture, rules, norms, clipped sums."""

from .capture.probe import Structure, probe
from .clipper import Clipper
from .compile.compiled import Compiled
from .rules import convolution, expansions, experts  # noqa: F401  they register their rules
from .sums import Clipped, Forward, clipped_sum
from .weigh import Weigh

__all__ = ["Clipped", "Clipper", "Compiled", "Forward", "Structure", "Weigh", "clipped_sum", "probe"]
