"""Verbs of accounting: epsilon, calibrate, plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.events import Event
from ..core.interval import Interval, finite
from ..core.shown import at_least, at_most, small
from .app import Result, assumed, verb

METHOD = "privacy-loss distribution, certified from both sides"
ABOVE = "privacy-loss distribution, certified from above"
Delta = Annotated[float, typer.Option(help="Delta of (epsilon, delta).")]
Neighbours = Annotated[str, typer.Option(help="add-remove, replace or zero-out.")]
Noise = Annotated[float | None, typer.Option(help="Noise standard deviation over clip norm.")]
Rate = Annotated[float, typer.Option(help="Probability that a record is in a batch.")]
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]


@verb("epsilon")
def epsilon(
    delta: Delta,
    noise_multiplier: Noise = None,
    rate: Rate = 1.0,
    steps: Steps = 1,
    event: Annotated[str | None, typer.Option(help="JSON file of an event, or - for standard input.")] = None,
    adjacency: Neighbours = "add-remove",
    sampling: Annotated[str, typer.Option(help="poisson, fixed-size, shuffled or allocation.")] = "poisson",
    group: Annotated[int, typer.Option(help="How many records differ.")] = 1,
    prior: Annotated[float, typer.Option(help="What an attacker believed before, for the posterior.")] = 0.5,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each theorem gives.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw trade-off curve and privacy profile, for a last iterate its loss by steps: .png or .svg."
        ),
    ] = None,
) -> Result:
    """Certified epsilon of an event, or of Gaussian training."""
    from .. import loss
    from ..loss.conditions import conditions, sampling_names

    described = _event(event, noise_multiplier, rate, steps, sampling)
    check.probability("prior", prior)
    if plot is not None:
        from .curves import draw, drawable

        drawable(plot)
    found = loss.privacy_loss(described, adjacency, group=group)
    interval = found.epsilon(delta)
    belief, accuracy = found.posterior(prior, delta), found.accuracy(prior)
    neighbours = Adjacency.of(adjacency)
    assumptions = conditions(described)
    method = ABOVE if interval.lower == 0 < interval.upper else METHOD
    data = {
        "epsilon": interval.to_json(),
        "delta": delta,
        "adjacency": neighbours.value,
        "sampling": sampling_names(described),
        "group": group,
        "event": described.to_json(),
        "method": method,
        "assumptions": assumptions,
        "prior": prior,
        "posterior": belief.to_json(),
        "accuracy": accuracy.to_json(),
    }
    most = at_most(belief.upper, 4)
    rows = [
        ("epsilon", spelled(interval)),
        ("delta", f"{small(delta)}"),
        ("adjacency", neighbours.value),
        ("method", method),
        ("belief", f"from {prior:.4g} to at most {most}, but for outputs of probability {small(delta)}"),
        ("guess", f"right with probability at most {at_most(accuracy.upper, 4)}"),
    ]
    lines = assumed(assumptions)
    if explain:
        theorems = loss.explain(described, delta=delta, adjacency=neighbours, group=group)
        data["theorems"] = [
            {"name": item.name, "epsilon": finite(item.epsilon), "reference": item.reference} for item in theorems
        ]
        lines += ["", *(f"{item.epsilon:>12.6g}  {item.name}  ({item.reference})" for item in theorems)]
    if plot is not None:
        draw(found, plot, described, delta, neighbours)
    return Result(data, rows, lines)


@verb("calibrate")
def calibrate(
    delta: Delta,
    epsilon: Annotated[float | None, typer.Option(help="Target epsilon.")] = None,
    advantage: Annotated[float | None, typer.Option(help="Target: largest advantage of any attack.")] = None,
    tpr: Annotated[float | None, typer.Option(help="Target: largest true-positive rate at --fpr.")] = None,
    fpr: Annotated[float | None, typer.Option(help="False-positive rate of --tpr.")] = None,
    solve: Annotated[str, typer.Option(help="noise-multiplier, rate or steps.")] = "noise-multiplier",
    noise_multiplier: Noise = None,
    rate: Rate = 1.0,
    steps: Steps = 1,
    adjacency: Neighbours = "add-remove",
) -> Result:
    """The least noise, or the largest rate or number of steps, that meets a target."""
    from .. import loss

    parameter = solve.replace("-", "_")
    setting = loss.calibrate(
        parameter,
        delta=delta,
        epsilon=epsilon,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        noise_multiplier=noise_multiplier,
        rate=rate,
        steps=steps,
        adjacency=adjacency,
    )
    numbers = {"noise_multiplier": setting.noise_multiplier, "rate": setting.rate, "steps": setting.steps}
    value = numbers.pop(parameter)
    assumptions = list(setting.bound.assumptions)
    data = {"parameter": parameter, "value": value, **setting.to_json(), "event": setting.event.to_json()}
    rows = [(parameter, f"{value:.10g}"), *((name, f"{given:.10g}") for name, given in numbers.items())]
    rows += [("epsilon", spelled(setting.epsilon)), ("delta", f"{small(delta)}")]
    rows += [("adjacency", setting.adjacency.value), ("method", METHOD)]
    lines = assumed(assumptions)
    return Result({**data, "method": METHOD, "assumptions": assumptions}, rows, lines)


@verb("plan")
def plan(
    records: Annotated[int, typer.Option(help="Public number of records.")],
    epsilon: Annotated[float, typer.Option(help="Target epsilon.")],
    delta: Delta,
    epochs: Annotated[float, typer.Option(help="Expected passes over the data.")] = 20,
    batch_size: Annotated[int | None, typer.Option(help="Expected batch size.")] = None,
    clip_norm: Annotated[float, typer.Option(help="Largest norm of one record's gradient.")] = 1.0,
    adjacency: Neighbours = "add-remove",
    sampling: Annotated[
        str, typer.Option(help="poisson, fixed-size, shuffled, allocation, cyclic or full; each has its own event.")
    ] = "poisson",
    clipping: Annotated[str, typer.Option(help="flat, per-layer, automatic or adaptive.")] = "flat",
    bands: Annotated[int, typer.Option(help="Noise of cyclic batches, correlated over so many steps.")] = 1,
) -> Result:
    """A plan of private training that meets (epsilon, delta)."""
    from .. import loss

    made = loss.plan(
        records,
        epsilon=epsilon,
        delta=delta,
        epochs=epochs,
        batch_size=batch_size,
        clip_norm=clip_norm,
        adjacency=adjacency,
        sampling=sampling,
        clipping=clipping,
        bands=bands,
    )
    found = loss.privacy_loss(made.event, made.adjacency).epsilon(delta)
    numbers = {
        "public_size": made.public_size,
        "rate": made.rate,
        "steps": made.steps,
        "noise_multiplier": made.noise_multiplier,
        "clip_norm": made.clip_norm,
    }
    words = {"adjacency": made.adjacency.value, "sampling": made.sampling.name, "clipping": made.clipping.name}
    assumptions = list(made.assumptions)
    data = {**numbers, "bands": made.bands, "epsilon": found.to_json(), "delta": delta, **words}
    rows = [(name, f"{value:.10g}") for name, value in numbers.items()]
    rows += [("epsilon", spelled(found)), ("delta", f"{small(delta)}"), *words.items()]
    lines = [*assumed(assumptions), made.hint]
    more = {"event": made.event.to_json(), "assumptions": assumptions, "hint": made.hint}
    return Result({**data, **more}, rows, lines)


def spelled(interval: Interval) -> str:
    """The claim first, then how sure it is."""
    if interval.lower == 0 < interval.upper:
        return f"{at_most(interval.upper, 7)}  (upper bound; no lower end is proven here)"
    ends = f"{at_least(interval.lower, 10)} and {at_most(interval.upper, 10)}"
    return f"{at_most(interval.upper, 7)}  (certified: between {ends})"


def _event(source: str | None, noise_multiplier: float | None, rate: float, steps: int, sampling: str) -> Event:
    from ..loss.reading import training_event

    if (source is None) == (noise_multiplier is None):
        raise BadInput("epsilon needs either --noise-multiplier or --event.", fix="Give exactly one of them.")
    if source is None:
        return training_event(noise_multiplier or 0.0, rate, steps, sampling)
    if rate != 1.0 or steps != 1 or sampling != "poisson":
        raise BadInput("--rate, --steps and --sampling go with --noise-multiplier.", fix="Put them into the event.")
    from .inputs import read_event

    return read_event(source)
