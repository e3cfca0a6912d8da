"""Search for the largest contribution of one record: every rule, every precision, by Hypothesis and gradient ascent.

    python benchmarks/contributions.py [--quick] [--out FILE]

A try is a record. Its contribution x_i = c_i G_i is made in float64 from the numbers that the rule is given, rounded
as the precision rounds them, and e is how far the computed sum is from the sum of all x_i. What one record may move
the released sum by is then at most max_i |x_i| + 2 e; the table has its largest value in units of C (1 + r), which must
not exceed 1. TF32 and bfloat16 are emulated: factors are rounded as a GPU does, products are added up in float32.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st
from torch import Tensor

from contributions_fleet import FLEETS, measured_fleet
from machine import describe, keep
from tacit.train.clip import sums
from tacit.train.clip.rounding import COARSE, ROUNDING
from tacit.train.clip.rules import outer as rule
from tacit.train.clip.rules.outer import Outer
from tacit.train.clip.rules.terms import Dense, Gather, Term, Viewed
from tacit.train.clip.sums import clipped_terms, weighted_sums
from tacit.train.clip.weigh import Weigh

ROWS, CLIP = 32, 1.0
PRECISIONS = ("float32", "tf32", "bfloat16", "bfloat16 as on a GPU")
RULES = ("one position", "one position, groups", "inner products", "inner products, groups", "written out",
         "embedding", "dense", "view", "tied embedding", "mixture", "one position, many records",
         "inner products, many records", "dense, many records", *FLEETS)  # fmt: skip
MANY = 700


@dataclass
class Worst:
    """The largest value so far, over how many tries."""

    precision: str
    value: float = 0.0
    tries: int = 0
    largest: dict[str, float] = field(default_factory=dict)

    def see(self, name: str) -> float:
        """Look at one set of records."""
        with emulated(self.precision):
            contributions, apart = measured(name, *self.sides, self.precision)
        room = CLIP * (1 + ROUNDING["float32" if self.precision == "float32" else "bfloat16"])
        value = (float(contributions.max()) + 2 * apart) / room
        assert not math.isnan(value), name
        self.tries += len(contributions)
        if value > self.value:
            self.value, self.largest = value, {"own": float(contributions.max()) / CLIP, "sum": apart / CLIP}
        return value

    sides: tuple[Tensor, Tensor] = field(default=(torch.zeros(0), torch.zeros(0)), repr=False)


@contextmanager
def emulated(precision: str) -> Iterator[None]:
    """Products as a GPU makes them, here, and no second thought about float64."""
    if "GPU" not in precision and precision != "tf32":
        yield
        return
    crossed = rule.crossed
    rounds = {"narrow": lambda values: values.dtype == torch.bfloat16} if "GPU" in precision else {
        "coarse": lambda values: COARSE["high"] * (values.dtype == torch.float32),
        "crossed": lambda left, right, *rest: crossed(*rounded(left, right), *rest),
    }  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(patch.object(sums, "group_sway", lambda terms, squares, *rest: torch.zeros_like(squares)))
        for name, function in rounds.items():
            stack.enter_context(patch.object(rule, name, function))
        yield


def rounded(*sides: Tensor) -> list[Tensor]:
    """To TF32, but for products in float64."""
    wide = any(side.dtype == torch.float64 for side in sides)
    return list(sides) if wide else [tf32(side) for side in sides]


def tf32(values: Tensor) -> Tensor:
    """Rounded to the ten bits of a fraction that TF32 has."""
    bits = values.view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def made(name: str, left: Tensor, right: Tensor) -> tuple[list[Term], Tensor]:
    """Terms of one parameter from two sides (B, T, p) and (B, T, d), and the parameter."""
    _, positions, rows = left.shape
    columns = right.shape[-1]
    weight = torch.zeros(rows, columns, requires_grad=True)
    index = torch.arange(positions).remainder(2).expand(len(left), -1)
    first, both = (slice(0, 1), slice(0, positions))
    if name.startswith("one position"):
        left, right = (side if "groups" in name else side[:, first] for side in (left, right))
        left, right = (side[:, :, None] for side in (left, right))
        shape = torch.Size((left.shape[1], rows, columns))
        return [Outer(left, right, shape)], torch.zeros(shape)
    if name == "inner products, groups":
        sides = [side.unflatten(2, (2, -1)).transpose(1, 2) for side in (left[..., : rows // 2 * 2], right)]
        shape = torch.Size((2, sides[0].shape[-1], sides[1].shape[-1]))
        return [Outer(*sides, shape)], torch.zeros(shape)
    plain = Outer(left[:, None, both], right[:, None, both], weight.shape)
    if name == "embedding":
        return [Gather(index, right, weight.shape)], weight
    if name.startswith("dense"):
        return [Dense(plain.dense())], weight
    if name == "view":
        return [Viewed([plain], weight.T, weight, lambda one: one.T)] if rows == columns else [plain], weight
    if name == "tied embedding":
        return [plain, Gather(index, right, weight.shape)], weight
    if name == "mixture":
        return [plain, Dense(-Outer(left[:, None], right[:, None], weight.shape).dense() * (1 + 2.0**-12))], weight
    return [plain], weight


def exact(terms: list[Term], weight: Tensor, precision: str) -> Tensor:
    """c_i G_i in float64 from what is multiplied."""
    found = 0.0
    for term in terms:
        if isinstance(term, Outer) and term._written is None:
            sides, side = [term.left, term.right], term._rounded()
            if precision == "bfloat16 as on a GPU":
                sides[side] = (sides[side].float() * weight.view(-1, 1, 1, 1)).bfloat16()
            elif precision == "tf32" and weight.dtype == torch.float32:
                sides[side] = sides[side] * weight.view(-1, 1, 1, 1)
                sides = rounded(*sides)
            else:
                sides[side] = sides[side].double() * weight.double().view(-1, 1, 1, 1)
            part = torch.einsum("bgtp,bgtd->bgpd", *(one.double() for one in sides))
            found = found + part[..., : term._sizes[0], : term._sizes[1]].reshape(len(weight), *term.shape)
        elif isinstance(term, Gather):
            rows = term.rows.double() * weight.double()[:, None, None]
            table = rows.new_zeros(len(rows), *term.shape)
            found = found + table.scatter_add_(1, term.index[..., None].expand_as(rows), rows)
        elif isinstance(term, Viewed):
            found = found + exact(term.terms, weight, precision).mT
        else:
            values = term.dense().double()
            found = found + values * weight.double().view(-1, *(1,) * (values.ndim - 1))
    return found


def measured(name: str, left: Tensor, right: Tensor, precision: str) -> tuple[Tensor, float]:
    """|x_i| of every record, and how far the computed sum is from theirs."""
    if name in FLEETS:
        return measured_fleet(name, left, right, CLIP)
    if "bfloat16" in precision:
        left, right = left.bfloat16(), right.bfloat16()
    by_inner = "written" not in name
    with patch.object(Outer, "_by_inner", lambda outer: by_inner):
        terms, parameter = made(name, left, right)
        seen = []

        def add(parameters, terms, weight, weigh):  # type: ignore[no-untyped-def]
            seen.append((terms["w"], weight))
            return weighted_sums(parameters, terms, weight, weigh)

        rows = len(left)
        losses, mask = torch.zeros(rows), torch.ones(rows, dtype=torch.bool)
        found = clipped_terms({"w": parameter}, {"w": terms}, losses, mask, CLIP, Weigh(most=rows), add)
        ((terms, weight),) = seen
        single = exact(terms, weight[0], precision)
    return single.flatten(1).norm(dim=1), float((found.sums["w"].double() - single.sum(0)).norm())


def drawn(
    seed: int, positions: int, rows: int, columns: int, shape: tuple[int, int, int, int], count: int = ROWS
) -> tuple[Tensor, Tensor]:
    """Sides of given sizes and scales, which cancel along the positions to some power of ten, more or less alike."""
    large, small, cancels, alike = shape
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(count, positions, rows, generator=generator)
    right = torch.randn(count, positions, columns, generator=generator)
    if alike:  # rounding that does not average out
        left, right = left.sign() * (1 + 2.0**-alike), torch.ones_like(right) * (1 + 2.0**-alike / 3)
    if cancels and positions > 1:
        half = positions // 2
        left[:, half : 2 * half] = -left[:, :half] + 10.0**-cancels * left[:, half : 2 * half]
        right[:, half : 2 * half] = right[:, :half] + 10.0 ** -(cancels + 1) * right[:, half : 2 * half]
    return left * 10.0**large, right * 10.0**small


CASES = st.tuples(
    st.integers(0, 2**31), st.sampled_from((1, 2, 3, 8, 33)), st.sampled_from((2, 4, 24, 200)),
    st.sampled_from((2, 4, 24, 96)),
    st.tuples(st.integers(-25, 18), st.integers(-25, 18), st.integers(0, 9), st.integers(0, 23)),
)  # fmt: skip


def by_hypothesis(worst: Worst, name: str, examples: int) -> None:
    @settings(max_examples=examples, database=None, derandomize=True, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(CASES)
    def look(case: tuple[int, int, int, int, tuple[int, int, int, int]]) -> None:
        many = "many" in name
        worst.sides = (
            drawn(case[0], min(case[1], 3), *(min(size, 24) for size in case[2:4]), case[4], MANY)
            if many
            else drawn(*case)
        )
        target(worst.see(name))

    look()


def by_ascent(worst: Worst, name: str, starts: int, steps: int = 20) -> None:
    """Up the gradient of how far positions cancel, log A/|G|, from random records; every step is looked at."""
    for start in range(starts):
        sides = [side.requires_grad_() for side in drawn(start, 2 + start % 7, 16, 16, (start % 9, 0, 0, 0))]
        for _ in range(steps):
            left, right = sides
            gradient = torch.einsum("btp,btd->bpd", left, right).flatten(1).norm(dim=1)
            reach = (left.norm(dim=2) * right.norm(dim=2)).sum(1)
            slopes = torch.autograd.grad((reach / gradient.clamp(min=1e-30)).log().sum(), sides)
            with torch.no_grad():
                for side, slope in zip(sides, slopes, strict=True):
                    size = side.norm(dim=(1, 2), keepdim=True) / slope.norm(dim=(1, 2), keepdim=True).clamp(min=1e-30)
                    side += 0.2 * size * slope.nan_to_num()
            worst.sides = sides[0].detach().clone(), sides[1].detach().clone()
            worst.see(name)


def searched(examples: int, starts: int, rules: tuple[str, ...] = RULES) -> list[dict[str, object]]:
    rows = []
    for name in rules:
        for precision in PRECISIONS[: 1 if name in FLEETS else None]:  # what a fleet does on a GPU is not emulated
            worst, began = Worst(precision), time.process_time()
            by_hypothesis(worst, name, examples)
            by_ascent(worst, name, starts)
            rows.append({"rule": name, "precision": precision, "worst": worst.value, "tries": worst.tries,
                         **worst.largest, "seconds": round(time.process_time() - began, 1)})  # fmt: skip
            print(*(f"{value:.6f}" if isinstance(value, float) else value for value in rows[-1].values()), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="contributions")
    asked = parser.parse_args()
    rows = searched(10, 1) if asked.quick else searched(150, 8)
    print("worst", max(row["worst"] for row in rows), "tries", sum(row["tries"] for row in rows))
    if not asked.quick:
        keep(asked.out, describe("torch"), rows)


if __name__ == "__main__":
    main()
