"""An event of few outcomes for tests of the accountant, under every adjacency: it is no release that one can make."""

from dataclasses import dataclass

from tacit.core.events import Event
from tacit.loss.costs.mechanisms import answers
from tacit.loss.costs.registry import loss_of, once


@dataclass(frozen=True)
class Answered(Event):
    """Randomized response of `categories` in which whoever is absent is answered for at random."""

    epsilon: float
    categories: int = 2


Event.registry.pop("Answered")


@loss_of.register
def _(event: Answered, adjacency, group):
    return group * once(answers(event.epsilon, event.categories))
