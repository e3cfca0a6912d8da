"""A model and its loss made ready for clipping: what is trainable, what is public, what a batch's shapes imply."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .alone import alone, clipped_alone
from .arrays import REDUCED, Room, full_float32, uncompiled, wide
from .capture.coins import in_a_step, not_baked_in, rewound
from .capture.errors import Failing, changed, left, seen_again, stops, unheard
from .capture.keeping import keeps
from .capture.made_up import made_up, same_random, usable
from .capture.onlookers import HOOKED, backward_hooks
from .capture.probe import DISAGREES, Structure, agrees, probe, unchanged
from .capture.ranges import InRange
from .isolation import Called, Stopped, Surroundings
from .leftovers import taken_back
from .modes import Listed, Modes, modes, switches
from .recompute.two_pass import clipped_again
from .replaced import Alike, Failed, drawn_alike, repeated
from .slowness import Slowness, measured
from .sums import Add, Clipped, Spread, clipped_sum, per_example
from .tree import describe, mapped, size, tensors
from .weigh import FLAT, Weigh

Loss = Callable[[nn.Module, Any], Tensor]
T = TypeVar("T")
MOST_STRUCTURES = 16
"""From so many ways of running on, whole numbers among a model's attributes are taken for those of a schedule."""


@dataclass(eq=False)
class Clipper:
    """Clipped sums of a model's per-example gradients; a pure function of (parameters, batch).

    Guarantee: see `clipped_sum`. The model's buffers must not change: they would carry data past the noise.
    """

    model: nn.Module
    loss: Loss
    parameters: dict[str, Tensor]
    clip_norm: float
    precision: str = "float32"
    weigh: Weigh = FLAT
    add: Add | None = None
    structures: dict[Any, Structure] = field(default_factory=dict)
    shapes: dict[Any, Any] = field(default_factory=dict)
    called: Called = field(default_factory=dict)
    room: Room = field(default_factory=Room)
    noted: Modes | None = None
    listed: Listed | None = None

    @property
    def rounding(self) -> str:
        """The coarsest precision in use."""
        return coarsest(self.parameters, self.precision)

    def begin(self, modules: list[nn.Module]) -> None:
        """A step begins: what the attributes of the model's modules say now holds until the next."""
        if self.listed is None or self.listed.modules is not modules:
            self.listed = Listed(modules)
        self.noted = self.listed.now()

    def modes(self) -> Modes:
        """What the model's attributes said when the step began; what they say now, outside of steps."""
        return modes(self.model.modules()) if self.noted is None else self.noted

    def __call__(self, batch: object, mask: Tensor) -> Clipped:
        with self.products(), in_a_step():
            return self._clipped(batch, mask)

    def _clipped(self, batch: object, mask: Tensor) -> Clipped:
        structure = self.structure(batch)
        if not structure.together:
            return self.alone(batch, mask)
        return self._all_at_once(batch, mask, structure)

    def tidied(self) -> AbstractContextManager[Callable[[], bool]]:
        """Context in which a pass over all records leaves none of its tensors in the model's attributes."""
        return taken_back(self.model.modules() if self.listed is None else self.listed.modules)

    def _all_at_once(self, batch: Any, mask: Tensor, structure: Structure) -> Clipped:
        before, alike = self._buffers(), drawn_alike(mask.device)
        try:
            found = self.together(batch, mask, structure)
        except BaseException as error:
            if stops(error):
                raise
            return self.without_raising(batch, mask, structure, alike)
        for held, was in zip(self._buffers(), before, strict=False):
            if held != was:
                raise changed(self.model, dict(self.model.named_buffers())[held[0]])
        return found

    def together(self, batch: object, mask: Tensor, structure: Structure) -> Clipped:
        """Clip all records at once, in the way that `structure` describes."""
        forward = structure.forward(self.losses, batch, self.parameters, self.constants())
        known = mask, self.clip_norm, self.weigh
        with self.tidied():
            if structure.checkpointed and self.add is None:
                return clipped_again(forward, *known)
            return clipped_sum(forward, *known, self.add, self._room())

    def without_raising(self, batch: object, mask: Tensor, structure: Structure, alike: Alike) -> Clipped:
        """Clip all records at once except those at which operations raise; the others are computed exactly as before.

        Falls back to one record at a time if made-up records in their places raise too.
        """

        def tried(rows: object, kept: Tensor) -> Clipped | Failed:
            return self._tried(lambda: self.together(rows, kept, structure))

        found = repeated(tried, lambda rows: self._runs(rows, structure), batch, mask, alike)
        if found is not None:
            return found
        with alike():
            return self._spread(self._alone(batch, mask, shared=True))

    def raising(self, batch: object) -> Failed:
        """Find the records at which operations raise in an eager pass over all of them."""
        structure = self.structure(batch)
        found = self._tried(lambda: self._once(batch, structure))
        return found if isinstance(found, Failed) else Failed()

    def _runs(self, batch: object, structure: Structure) -> bool:
        """Whether a pass over all records at once raises for none of them."""
        return not isinstance(self._tried(lambda: self._once(batch, structure)), Failed)

    def _once(self, batch: Any, structure: Structure) -> None:
        every = torch.ones(size(batch), dtype=torch.bool, device=tensors(batch)[0].device)
        with self.tidied():
            per_example(structure.forward(self.losses, batch, self.parameters, self.constants()), every)

    def _tried(self, run: Callable[[], T]) -> T | Failed:
        """The result of a run with the step's coins from the first on, or the records that made it raise."""
        rewound()
        try:
            return run()
        except Failing as error:
            return Failed(error.places)
        except BaseException as error:
            if stops(error):
                raise
            return Failed()

    def alone(self, batch: Any, mask: Tensor, *, around: Surroundings | None = None) -> Clipped:
        """Clip one record at a time, for models that cannot run otherwise."""
        return self._spread(self._alone(batch, mask, around=around))

    def _in_range(self, batch: object) -> Tensor:
        """Losses of made-up records, whose integers are clamped into the range of what they index."""
        with InRange():
            return self.losses(batch)

    def _alone(
        self,
        batch: object,
        mask: Tensor,
        *,
        shared: bool = False,
        around: Surroundings | None = None,
        losses: Callable[[Any], Tensor] | None = None,
    ) -> Clipped:
        """Clip one record at a time; the sums are those of this process only.

        `shared`: records use the coins that they would have had together, because only one of them caused the fallback.
        """
        add = None if isinstance(self.add, Spread) else self.add
        with self.products():
            known = self.parameters, mask, self.clip_norm, self.weigh, add
            return clipped_alone(losses or self.losses, batch, *known, around or self.around(), shared=shared)

    def _spread(self, found: Clipped) -> Clipped:
        """Sum over all processes, if each process holds a part of the sample."""
        return replace(found, sums=self.add.spread(found.sums)) if isinstance(self.add, Spread) else found

    def around(self) -> Surroundings:
        """A snapshot of all state that the model and the loss can reach."""
        return Surroundings(self.model, self.loss, self.parameters, called=self.called)

    def _check_reach(self, structure: Structure, batch: object) -> None:
        """Refuse a model that runs one record at a time and can reach state that cannot be restored after each."""
        if structure.together:
            return
        lost, idle = self._tried_alone(batch)
        for path, kind in lost.items():
            raise left("model", path, kind)
        if idle:
            raise unheard(self.precision)

    def _tried_alone(self, batch: object) -> tuple[dict[str, str], bool]:
        """Made-up records one at a time: what they and the model lead to and cannot be put back, and whether none of
        them contributes though ordinary autograd takes some."""
        around = self.around()
        with same_random(), InRange():
            try:
                examples = around.run(0, partial(usable, self._looked_at, self.parameters, batch))
            except Stopped:
                return around.lost, False
            mask = torch.ones(size(examples), dtype=torch.bool, device=tensors(examples)[0].device)
            found = self._alone(examples, mask, around=(around := self.around()), losses=self._in_range)
            idle = not bool(found.norms.isfinite().any())
            if idle and not around.lost:
                plain = self.around().run(0, partial(alone, self._looked_at, examples, self.parameters))
                idle = any(all(bool(one.isfinite().all()) for one in each.values()) for each, _ in plain)
        return around.lost, idle

    def products(self) -> AbstractContextManager[Any]:
        """Compute float32 in float32: less precision rounds by more than the noise has room for (soundness rule 11)."""
        return full_float32() if self.precision == "float32" else nullcontext()

    def losses(self, batch: object, model: nn.Module | None = None, loss: Loss | None = None) -> Tensor:
        """One loss per example, in the asked precision, read in float32."""
        with self._precision(), not_baked_in(), uncompiled(self.model):
            losses = (loss or self.loss)(self.model if model is None else model, batch)
        return wide(losses) if isinstance(losses, Tensor) else losses

    def structure(self, batch: object) -> Structure:
        """How to run batches of this shape, found by a probe on made-up examples; cached."""
        key = self.key(batch)
        if key not in self.structures:
            with self.products(), self.tidied() as tidy:
                found = probe(self._looked_at, self.parameters, batch, self.constants(), self.model)
                with unchanged(self.constants(), self.model):
                    found = self._forgetful(batch, self._compared(batch, found), tidy)
            self._check_reach(found, batch)
            self.structures[key], self.shapes[key] = found, made_up(batch, 1)
        return self.structures[key]

    def key(self, batch: object) -> tuple[Any, Modes]:
        """What decides how a batch is run: its shapes, and the model's switches.

        Whole numbers are among them until they turn out to be those of a schedule.
        """
        return describe(batch), self._switches()

    def _switches(self) -> Modes:
        return switches(self.modes(), whole=len(self.structures) < MOST_STRUCTURES)

    def look_again(self, seed: int) -> None:
        """Compare with autograd again, on new made-up records; on disagreement, run one record at a time."""
        here = self._switches()
        for key, structure in self.structures.items():
            if key[1] != here:  # other code runs there; what it is now cannot be looked at
                continue
            with self.products(), self.tidied() as tidy:
                found = self._forgetful(self.shapes[key], self._compared(self.shapes[key], structure, seed), tidy)
            if structure.together:
                self._check_reach(found, self.shapes[key])
            self.structures[key] = found

    def _compared(self, batch: object, structure: Structure, seed: int = 0) -> Structure:
        """The structure, if its gradients agree with ordinary autograd; otherwise one record at a time.

        Rounding alone may change a network's path (a unit near its threshold, an expert that is barely chosen). So a
        disagreement is checked once more in float64.
        """
        if structure.together and backward_hooks(self.model, self.parameters.values()):
            return Structure(together=False, reason=f"it uses {HOOKED}")
        if not structure.together or agrees(self._looked_at, self.parameters, batch, structure, seed):
            return structure
        if self._agrees_in_float64(batch, structure, seed):
            return structure
        return Structure(together=False, reason=DISAGREES)

    def _forgetful(self, batch: object, structure: Structure, tidy: Callable[[], bool]) -> Structure:
        """The structure, if a pass leaves no state behind; otherwise one record at a time, where all state is restored.

        A model that can also reach state that cannot be restored is refused: it could see how many passes there were.
        """
        near = partial(Surroundings, self.model, self.loss, self.parameters, near=True)
        if not structure.together:
            return structure
        if not (what := keeps(self._looked_at, self.parameters, batch, structure, near, tidy)):
            return structure
        for path, kind in self._tried_alone(batch)[0].items():
            raise seen_again(what, path, kind)
        return Structure(together=False, reason=what)

    def _agrees_in_float64(self, batch: object, structure: Structure, seed: int) -> bool:
        """Whether a float64 copy of the model agrees; False if it cannot be made or run."""
        wider = mapped(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, batch)
        try:
            twin = copy.deepcopy(self.model).double()
            named = dict(twin.named_parameters())
            parameters = {name: named[name] for name in self.parameters}
            return agrees(lambda one: self.loss(twin, one), parameters, wider, structure, seed)
        except Exception:  # user code that is written for float32: one record at a time is always right
            return False

    @property
    def alone_because(self) -> str:
        """Why records run one at a time; empty if they do not."""
        return next((found.reason for found in self.structures.values() if not found.together), "")

    def slowness(self) -> Slowness | None:
        """How much slower one record at a time is, measured on made-up records of the first shape that needs it."""
        shapes = [self.shapes[key] for key, found in self.structures.items() if not found.together]
        return measured(self, shapes[0]) if shapes else None

    def _looked_at(self, batch: object) -> Tensor:
        """The loss without autocast, for comparisons in which rules and autograd must round alike."""
        with uncompiled(self.model):
            losses = self.loss(self.model, batch)
        return wide(losses) if isinstance(losses, Tensor) else losses

    def constants(self) -> list[Tensor]:
        """The model's tensors that are not trained, which count as public."""
        trained = {id(tensor) for tensor in self.parameters.values()}
        frozen = [tensor for tensor in self.model.parameters() if id(tensor) not in trained]
        return frozen + list(self.model.buffers())

    def _room(self) -> Room | None:
        """Reused memory on a CPU; None on a GPU, where torch itself caches memory."""
        return self.room if next(iter(self.parameters.values())).device.type == "cpu" else None

    def _precision(self) -> AbstractContextManager[object]:
        if self.precision == "float32":
            return nullcontext()
        device = next(iter(self.parameters.values())).device.type
        return torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False)

    def _buffers(self) -> list[tuple[str, int, int]]:
        return [(name, id(tensor), tensor._version) for name, tensor in self.model.named_buffers()]


def coarsest(parameters: Mapping[str, Tensor], precision: str) -> str:
    """The coarsest precision in use: autocast's, or that of the parameters."""
    return "bfloat16" if any(tensor.dtype in REDUCED for tensor in parameters.values()) else precision
