"""What to change where few queries were answered: one sentence, from public numbers and from what was released."""

from __future__ import annotations

from .aggregators import ConfidentGNMax
from .design import Design

FEW = 0.25
"""Share of the queries below which answers are few."""
SHARES = 0.8, 0.6, 0.16
"""Threshold and noise as shares of the number of teachers: Papernot et al. 2018, MNIST with 250 teachers."""


def advice(design: Design, teachers: int, answered: int, *, asked: int, capped: bool) -> str | None:
    """How to get more answers; None where they are not few.

    `asked` queries were wanted, of which the design may ask fewer. `capped` says that somebody chose the cap on
    answers: reaching it is then no surprise.
    """
    wanted = design.answers if capped else asked
    if answered >= FEW * wanted:
        return None
    if answered >= design.answers:
        return (
            f"Only {answered} of {asked} queries were answered: epsilon pays for no more. More noise "
            "per answer (with more teachers, which outvote it), a larger epsilon or fewer queries allow more answers; "
            'choose="typical" and student="semi-supervised" make the most of few.'
        )
    return f"Only {answered} of {design.queries} queries were answered: {_why(design, teachers)}"


def _why(design: Design, teachers: int) -> str:
    rule = design.aggregator
    if not isinstance(rule, ConfidentGNMax):
        return "the cap on answers was reached."
    usual = ", ".join(f"{share * teachers:g}" for share in SHARES)
    cause = (
        f"the threshold of {rule.threshold:g} votes is more than {teachers} teachers can give."
        if rule.threshold > teachers
        else f"noise and teachers that disagree keep the largest count below the threshold of {rule.threshold:g} votes."
    )
    return (
        f"{cause} Lower the threshold; ConfidentGNMax({usual}) is in proportion to the teachers (less noise costs "
        "more epsilon: give `epsilon` as a limit), and GNMax answers every query."
    )
