"""Public descriptions of releases: `tacit.events.Poisson(0.01, tacit.events.Gaussian(1.1))`."""

from .core.events import Event
from .core.events import family as family

globals().update(Event.registry)  # every event registers itself; this module is their public name

__all__ = sorted([*Event.registry, "Event", "family"])
