"""Public descriptions of releases: `tacit.events.Poisson(0.01, tacit.events.Gaussian(1.1))`."""

from .core.events import *  # noqa: F403
from .core.events import __all__ as __all__
