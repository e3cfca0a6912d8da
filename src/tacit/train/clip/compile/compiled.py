"""The whole clipped sum as one compiled graph.

The eager code is traced once per batch shape (forward, backward, norms and sums together), and the graph is compiled. A
trace is fixed. So a model whose Python code branches on anything but shapes and plain attributes of its modules must
run in eager mode. Each combination of attribute values gets a graph of its own (`modes`).

A compiler can be wrong in ways that void the privacy: one natural way to write per-example norms compiles to zeros, and
then nothing is clipped. So before its first use a compiled step must reproduce the eager norms and sums on made-up
examples, or it is refused.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from ....core import BadInput
from ..capture.errors import stops
from ..capture.made_up import made_up, same_random
from ..clipper import Clipper
from ..modes import Modes
from ..replaced import Alike, Failed, drawn_alike, repeated
from ..rounding import ROUNDING
from ..sums import Clipped, Forward, Terms, clipped_terms, per_example, without
from ..tree import describe, mapped
from .agreement import agree, length
from .graph import DECOMPOSED, is_random, rewritten
from .replay import Replay
from .small import Shapes, apart, pays, side_by_side

Tensors = tuple[dict[str, Tensor], dict[str, Tensor]]
Graph = Callable[..., tuple[list[Tensor], Tensor, Tensor, Tensor]]
PIECE, MOST_MODES = 32, 16
# Dropout draws what the eager step draws. Rows keep the lengths they have, which our own kernels ask for: the compiler
# would write an array twice, once in longer rows.
OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True, "comprehensive_padding": False}


@dataclass(eq=False)
class Compiled:
    """A clipper's clipped sum, compiled."""

    clipper: Clipper
    graphs: dict[Any, Graph] = field(default_factory=dict)
    _norm: tuple[float, Tensor] = field(default=(0.0, torch.zeros(())), repr=False)
    _given: Tensors | None = field(default=None, repr=False)
    _lying: list[tuple[Mapping[str, Tensor | None], str, Tensor, int]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._modules = list(self.clipper.model.modules())

    def __call__(self, batch: Any, mask: Tensor) -> Clipped:
        alike = drawn_alike(mask.device)
        found = self.launched(batch, mask)
        return found if bool(found.norms.isfinite().all()) else self.again(batch, mask, alike)

    def launched(self, batch: Any, mask: Tensor) -> Clipped:
        """Start the computation without waiting for the device. The sums are valid if all norms are finite, and the
        next call may overwrite the result.

        A model that runs one record at a time is not compiled.
        """
        if not self.clipper.structure(batch).together:
            return self.clipper(batch, mask)
        with self.clipper.products():
            graph, alike = self.graph(batch, mask), drawn_alike(mask.device)
            try:
                return self._run(graph, batch, mask)
            except BaseException as error:
                if stops(error):
                    raise
                return self.again(batch, mask, alike)

    def again(self, batch: Any, mask: Tensor, alike: Alike | None = None) -> Clipped:
        """Repeat `launched` without the records that fail in it; the graph computes the others exactly as before.

        Every run uses the same random numbers: those that `alike` restores, or those that come next. If stand-in
        records keep failing, the eager step leaves the records out.
        """
        if not self.clipper.structure(batch).together:
            return self.clipper(batch, mask)
        exact: list[bool] = []
        with self.clipper.products():
            found = repeated(
                lambda rows, kept: self._tried(rows, kept, exact),
                lambda rows: self._once(rows, torch.ones_like(mask), exact=bool(exact)) is not None,
                batch,
                mask,
                alike or drawn_alike(mask.device),
            )
        return self.clipper(batch, mask) if found is None else found

    def _tried(self, batch: Any, mask: Tensor, exact: list[bool]) -> Clipped | Failed:
        """One run; repeated with sums in float64, which `exact` then notes, if float32 turns out too rough."""
        alike = drawn_alike(mask.device)
        found = self._once(batch, mask, exact=bool(exact))
        if found is not None and not exact and bool(found.norms.isnan().any()):
            exact.append(True)
            with alike():
                found = self._once(batch, mask, exact=True)
        if found is None:
            return self.clipper.raising(batch)
        failing = ~found.norms.isfinite()
        return Failed(failing, found) if bool(failing.any()) else found

    def _once(self, batch: Any, mask: Tensor, *, exact: bool) -> Clipped | None:
        """One run without recording a CUDA graph; None if it raises."""
        graph = self.graph(batch, mask, exact=exact)
        try:
            return self._run(graph.function if isinstance(graph, Replay) else graph, batch, mask)
        except BaseException as error:
            if stops(error):
                raise
            return None

    def graph(self, batch: Any, mask: Tensor, *, exact: bool = False) -> Graph:
        """The compiled step for batches of this shape; compiled, and compared with the eager one, at the first request.

        `exact` asks for sums in float64, for batches that turn out to need them.
        """
        key = describe(batch), len(mask), self.mode(), exact
        if key not in self.graphs:
            self._check_modes(key)
            with warnings.catch_warnings():
                for kind in (DeprecationWarning, FutureWarning):  # the compiler's own, about itself
                    warnings.simplefilter("ignore", kind)
                self.graphs[key] = self._made(batch, mask, exact=exact)
        return self.graphs[key]

    def _check_modes(self, key: tuple[Any, ...]) -> None:
        """Refuse to compile again and again for a model attribute that a schedule keeps changing."""
        shape, count, _, exact = key
        known = [one for one in self.graphs if (one[0], one[1], one[3]) == (shape, count, exact)]
        if len(known) >= MOST_MODES:
            raise BadInput(
                f"Attributes of the model have had {len(known)} values so far, and a step is compiled for each.",
                fix="Keep a number that changes from step to step in a buffer (register_buffer), which a compiled step "
                "reads, or train with Speed(compile=False).",
            )

    def _made(self, batch: Any, mask: Tensor, *, exact: bool) -> Graph:
        """Trace and compile. Code that branches on a tensor's value cannot be traced, and is refused."""
        try:
            return self._compile(batch, mask, exact=exact)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise BadInput(
                "The model cannot be compiled, as a rule because its code decides by the values of a tensor.",
                fix="Train with Speed(compile=False).",
            ) from error

    def _compile(self, batch: Any, mask: Tensor, *, exact: bool) -> Graph:
        structure = self.clipper.structure(batch)
        examples = made_up(batch, len(mask))
        whole = torch.ones_like(mask)
        trained, public = self.tensors()

        def step(
            trained: dict[str, Tensor], public: dict[str, Tensor], batch: Any, mask: Tensor, clip_norm: Tensor
        ) -> Any:
            leaves = {name: tensor.detach().requires_grad_() for name, tensor in trained.items()}
            model = _Losses(self.clipper)
            named = _places(model, {**public, **leaves})
            forward = Forward(
                lambda one: functional_call(model, named, (one,), tie_weights=False),
                batch,
                leaves,
                copies=True,
                owned=structure.owned,
                lasting=list(public.values()),
                traced=structure.traced,
            )
            terms, losses, kept = per_example(forward, mask)
            with torch.no_grad():
                found = self._clipped(leaves, terms, losses, kept, clip_norm, exact=exact)
            return [found.sums[name] for name in leaves], found.norms, found.losses, found.shortened

        trace = make_fx(step, DECOMPOSED, tracing_mode="fake", _allow_non_fake_inputs=True)
        with self.clipper.tidied():
            traced = rewritten(trace(trained, public, examples, whole, self.norm(whole)))
        graph: Graph = torch.compile(traced, fullgraph=True, dynamic=False, options=OPTIONS)
        if whole.is_cuda:
            graph = Replay(graph)
        self._compare(graph, examples, whole, len(whole) if is_random(traced) else PIECE)
        return graph

    def _clipped(
        self,
        leaves: Mapping[str, Tensor],
        terms: Terms,
        losses: Tensor,
        kept: Tensor,
        clip_norm: Tensor,
        *,
        exact: bool,
    ) -> Clipped:
        """The clipped sum from its terms; on a GPU, small gradients are joined into one array."""
        weigh = self.clipper.weigh
        shapes: dict[str, Shapes] = {}
        if pays(losses):
            terms, shapes = side_by_side(terms, weigh)
        held = {name for members in shapes.values() for name in members} - set(shapes)
        named = {name: leaf for name, leaf in leaves.items() if name not in held}
        found = without(clipped_terms(named, terms, losses, kept, clip_norm, weigh, exact=exact), kept)
        return replace(found, sums=apart(found.sums, shapes))

    def _compare(self, graph: Graph, examples: Any, mask: Tensor, piece: int) -> None:
        """Compare the compiled step with the eager one on made-up examples, `piece` of them at a time to save memory.

        Norms are compared with norms, because a lost norm would go unnoticed in a sum over many examples. A model that
        draws random numbers draws the same ones in both. The longest gradient by itself must be as short as the noise
        allows.
        """
        with same_random():  # a first run may be recorded, which draws random numbers too
            norms = self._run(graph, examples, mask).norms
        longest = torch.arange(len(mask), device=mask.device) == norms.nan_to_num(0.0, 0.0).argmax()
        with self._clipping(norms):
            room = self.clipper.clip_norm * (1 + ROUNDING[self.clipper.rounding])
            with same_random():  # each run may overwrite what the one before gave
                within = length(self._run(graph, examples, longest)) <= room
            with same_random():
                fast = self._run(graph, examples, mask)
            with same_random():
                slow = self._eager(examples, mask, piece)
        if not within or not agree(fast, slow, rough=self.clipper.rounding != "float32"):
            raise BadInput(
                "The compiled step does not clip as the eager one does, so it is not used.",
                fix="Train with Speed(compile=False), and tell us about the model.",
            )

    @contextmanager
    def _clipping(self, norms: Tensor) -> Iterator[None]:
        """Use a clip norm that half of these norms exceed by a factor of two, so that missing clipping is noticed."""
        asked = self.clipper.clip_norm
        half = float(norms[norms.isfinite() & (norms > 0)].median()) / 2
        self.clipper.clip_norm = min(asked, half) if half > 0 else asked
        try:
            yield
        finally:
            self.clipper.clip_norm = asked

    def _eager(self, examples: Any, mask: Tensor, piece: int) -> Clipped:
        found = []
        for some in torch.arange(len(mask), device=mask.device).split(piece):
            found.append(self.clipper(mapped(operator.itemgetter(some), examples), mask[some]))
        sums = {name: sum((part.sums[name] for part in found[1:]), found[0].sums[name]) for name in found[0].sums}
        return replace(found[0], sums=sums, norms=torch.cat([part.norms for part in found]))

    def _run(self, graph: Graph, batch: Any, mask: Tensor) -> Clipped:
        trained, public = self.tensors()
        with torch.no_grad():
            sums, *rest = graph(trained, public, batch, mask, self.norm(mask))
        return Clipped(dict(zip(trained, sums, strict=True)), *rest)

    def mode(self) -> Modes:
        """The values of the module attributes, which a graph contains as constants."""
        return self.clipper.modes()

    def norm(self, like: Tensor) -> Tensor:
        """The clip norm as an input of the graph, since it may change from step to step."""
        if float(self.clipper.clip_norm) != self._norm[0] or self._norm[1].device != like.device:
            value = torch.tensor(self.clipper.clip_norm, dtype=torch.float32, device=like.device)
            self._norm = float(self.clipper.clip_norm), value
        return self._norm[1]

    def tensors(self) -> Tensors:
        """Trained parameters, and all other tensors, by name and detached; cached until one of them is moved."""
        if self._given is None or any(
            held.get(name) is not tensor or tensor.data_ptr() != place for held, name, tensor, place in self._lying
        ):
            trained = dict(self.clipper.parameters)
            model = self.clipper.model
            named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
            public = {name: tensor for name, tensor in named.items() if name not in trained}
            holders = [held for module in self._modules for held in (module._parameters, module._buffers)]
            self._lying = [
                (held, name, tensor, tensor.data_ptr())
                for held in (self.clipper.parameters, *holders)
                for name, tensor in held.items()
                if tensor is not None
            ]
            detached = [{name: tensor.detach() for name, tensor in some.items()} for some in (trained, public)]
            self._given = detached[0], detached[1]
        return self._given


def _places(losses: _Losses, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensor for every name in the model: tied parameters have several names, a module used twice has one."""
    found = {}
    model = losses.model
    name_of = {id(tensor): name for name, tensor in chain(model.named_parameters(), model.named_buffers())}
    for path, module in losses.named_modules():
        for place, tensor in chain(module.named_parameters(path, False), module.named_buffers(path, False)):
            found[place] = named[name_of[id(tensor)]]
    return found


class _Losses(nn.Module):
    """A model and its loss as one module whose parameters can be substituted."""

    def __init__(self, clipper: Clipper) -> None:
        super().__init__()
        self.model = clipper.model
        self.clipper = clipper

    def forward(self, batch: Any) -> Tensor:
        return self.clipper.losses(batch)
