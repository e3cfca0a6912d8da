"""Every operator and module of torch, with the inputs that torch tests them with: does private training keep its word?

    python benchmarks/operators.py [--quick] [--only NAME ...] [--spellings NAME ...] [--samples 2] [--rows FILE]

A small model is made around each (`operators_samples.py`), in several spellings. For each model that is accepted:

- the sum is within 1e-4 C of a loop over records in float64 (or of one in float32, or in float64 on both sides, where
  rounding carries a model another way), at several sizes of the batch and at moved weights;
- to take a record out moves the sum by at most C (1 + r), and to put another in its place by at most 2 C (1 + r);
- a record with odd values (NaN, infinite, huge, tiny, outside of the domain, an index out of range) never stops the
  run, moves the sum by at most C (1 + r) and changes nothing for the others.

Each operator runs in a process of its own, so one that ends its process is found. A summary is kept in
results/operators.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import signal
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from machine import describe, keep
from operators_samples import SPELLINGS, Around, Batch, around, batch_of, cases, modules, operators, wider
from tacit.core import TacitError
from tacit.train.clip import Clipper
from tacit.train.clip.capture.ranges import Inside
from tacit.train.clip.rounding import ROUNDING

NAME = "operators"
ROOM = 1 + ROUNDING["float32"]
SECONDS = 120
FIGURES = "removed", "odd", "others", "off", "odd off"
ODD = (float("nan"), -37.5, float("inf"), -float("inf"), 0.0, -0.0, 1e30, 1e-40, 2.0)
WHOLE = (10**6, -1, 0, -(2**40), 2, 5, 7)


def loss(model: nn.Module, batch: Batch) -> Tensor:
    return model(*batch)  # type: ignore[no-any-return]


def clipper(model: nn.Module, norm: float) -> Clipper:
    return Clipper(model, loss, dict(model.named_parameters()), norm)


def total(clip: Clipper, batch: Batch, without: int | None = None) -> Tensor:
    """The sum, with the same random numbers every time."""
    torch.manual_seed(1)
    mask = torch.ones(len(batch[-1]), dtype=torch.bool)
    if without is not None:
        mask[without] = False
    return torch.cat([part.double().flatten() for part in clip(batch, mask).sums.values()])


def gradients(model: nn.Module, batch: Batch) -> list[Tensor | None]:
    """The gradient of every record by ordinary autograd; None where the record raises, or names a place outside."""
    found: list[Tensor | None] = []
    every = list(model.parameters())
    for place in range(len(batch[-1])):
        torch.manual_seed(7)
        try:
            with Inside():  # torch itself may read there, and end the process
                value = loss(model, tuple(part[place : place + 1].clone() for part in batch))
            parts = torch.autograd.grad(value.sum(), every, allow_unused=True)
        except Exception:  # whatever a value makes torch raise
            found.append(None)
            continue
        pairs = zip(parts, every, strict=True)
        found.append(
            torch.cat([(torch.zeros_like(of) if one is None else one).flatten() for one, of in pairs]).double()
        )
    return found


def doubled(batch: Batch) -> Batch:
    return tuple(part.double() if part.is_floating_point() else part for part in batch)


def clipped(found: list[Tensor | None], norm: float, size: int) -> Tensor:
    """The clipped sum of gradients, without those that are not finite or that float32 cannot square."""
    sums = torch.zeros(size, dtype=torch.float64)
    for one in found:
        if one is not None and float(one.norm()) <= 2.0**64:
            sums += one * min(1.0, norm / max(float(one.norm()), 1e-300))
    return sums


def far(one: Tensor, other: Tensor, clip: Clipper) -> float:
    """How far two sums are from each other, in clip norms; NaN is infinitely far."""
    found = float((one - other).norm()) / float(clip.clip_norm)
    return found if found == found else float("inf")


def off(clip: Clipper, model: nn.Module, batch: Batch) -> float:
    """How far the sum is from that of a loop, in clip norms: the least of three ways to round."""
    norm, size = float(clip.clip_norm), sum(one.numel() for one in model.parameters())
    here = total(clip, batch)
    found = far(here, clipped(_wide_gradients(model, batch), norm, size), clip)
    if found > 1e-4:
        found = min(found, far(here, clipped(gradients(model, batch), norm, size), clip))
    if found > 1e-4:
        twin = clipper(wider(model), norm)
        try:
            there = total(twin, doubled(batch))
        except Exception:  # an operator that takes no float64
            return found
        found = min(found, far(there, clipped(_wide_gradients(model, batch), norm, size), clip))
    return found


def _wide_gradients(model: nn.Module, batch: Batch) -> list[Tensor | None]:
    return gradients(wider(model), doubled(batch))


def typical(model: nn.Module, batch: Batch) -> float | None:
    """Half of a typical length of a gradient; None where there is no model to speak of."""
    found = [float(one.norm()) for one in gradients(model, batch) if one is not None]
    found = sorted(one for one in found if one == one and 1e-6 < one < 2.0**60)
    return found[len(found) // 2] / 2 if found else None


def steady(model: nn.Module, batch: Batch) -> bool:
    """Whether ordinary autograd gives the same twice, whatever random numbers are drawn."""
    found = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        try:
            found.append(torch.stack([loss(model, tuple(part[:1].clone() for part in batch))]).detach().nan_to_num())
        except Exception:
            return True
    return all(torch.equal(found[0], one) for one in found)


def odd(model: Around, batch: Batch, place: int) -> list[tuple[str, Batch]]:
    """The batch with odd values in one record, in all places of a leaf or in one."""
    found = []
    for leaf, part in enumerate(batch[: max(1, len(model.data))]):
        if not part[place].numel() or part.dtype == torch.bool:
            continue
        values: tuple[Any, ...] = WHOLE
        if not part.is_floating_point() and not part.is_complex():
            least, most = torch.iinfo(part.dtype).min, torch.iinfo(part.dtype).max
            values = tuple(max(least, min(value, most)) for value in WHOLE)
        else:
            values = ODD
        for number, value in enumerate(values):
            for where in ("all", "one") if number < 2 and part[place].numel() > 1 else ("all",):
                other = part.clone()
                (other[place] if where == "all" else other[place].view(-1)[:1])[...] = value
                found.append((f"{value} in {where} of {leaf}", (*batch[:leaf], other, *batch[leaf + 1 :])))
    return found


def odd_off(clip: Clipper, model: nn.Module, batch: Batch, added: Tensor) -> float:
    """How far what an odd record added is from its clipped gradient, in clip norms.

    Nothing is compared where rounding decides: squares overflow, or the loops in float32 and in float64 differ.
    """
    norm, one = float(clip.clip_norm), tuple(part[1:2] for part in batch)
    if any(part.is_floating_point() and bool((part.abs() > 2.0**60).any()) for part in one):
        return 0.0
    narrow = clipped(gradients(model, one), norm, len(added))
    found = far(added, narrow, clip)
    if found <= 1e-4:
        return found
    wide = clipped(_wide_gradients(model, one), norm, len(added))
    return 0.0 if far(narrow, wide, clip) > 1e-3 else min(found, far(added, wide, clip))


def _beside_others(clip: Clipper, batch: Batch) -> Tensor:
    """What an odd record adds beside other records: its numbers, such as indices, may not reach into theirs."""
    unlike = []
    for part in batch:
        other = part.clone()
        if part.is_floating_point():
            other[2:] = part[2:] * 0.9
        unlike.append(other)
    return total(clip, tuple(unlike)) - total(clip, tuple(unlike), 1)


def moved(
    clip: Clipper, model: nn.Module, batch: Batch, odd_ones: list[tuple[str, Batch]], *, draws: bool
) -> dict[str, Any]:
    """What one record moves the sum by, in clip norms, and what odd ones change for the others."""
    base, less = total(clip, batch), total(clip, batch, 1)
    removed = max(far(base, less, clip), *(far(base, total(clip, batch, place), clip) for place in (0, -1)))
    found: dict[str, Any] = {"removed": removed, "odd": 0.0, "others": 0.0, "odd off": 0.0}
    for number, (name, other) in enumerate(odd_ones):
        try:
            here, rest = total(clip, other), total(clip, other, 1) if number < 3 else less
        except Exception as error:
            found["stopped"] = f"{name}: {type(error).__name__}: {str(error)[:200]}"
            break
        most, others = far(here, less, clip), far(rest, less, clip)
        if most > found["odd"]:
            found |= {"odd": most, "odd by": name}
        if not draws and not all(part.is_floating_point() for part in other):
            apart = _beside_others(clip, other)
            others = max(others, far(here - total(clip, other, 1), apart, clip))
        if others > found["others"]:
            found |= {"others": others, "others by": name}
        if not draws and (away := odd_off(clip, model, other, here - less)) > found["odd off"]:
            found |= {"odd off": away, "odd off by": name}
    return found


def tried(model: Around, sample: Any, counts: tuple[int, ...]) -> dict[str, Any] | None:
    """How one model is taken, and whether what is promised holds."""
    batch = batch_of(sample, model, counts[0])
    norm = typical(model, batch) if batch is not None else None
    if batch is None or norm is None:
        return None
    clip, row = clipper(model, norm), {}
    try:
        structure = clip.structure(batch)
    except TacitError as error:
        return {"way": "refused", "why": error.message[:200]}
    except Exception as error:
        return {"way": "crashed", "why": f"{type(error).__name__}: {str(error)[:200]}"}
    row |= {"way": "at once" if structure.together else "one by one", "why": structure.reason[:200]}
    draws = not steady(model, batch)
    try:
        every = odd(model, batch, 1)
        row |= moved(clip, model, batch, every if structure.together else every[:2], draws=draws)
        if not draws:
            row["off"] = max(_off_at(clip, model, sample, count) for count in counts)
            with torch.no_grad():
                for one in model.parameters():
                    one.mul_(1 + 0.02 * torch.randn(one.shape, generator=torch.Generator().manual_seed(5)))
            row["off"] = max(row["off"], _off_at(clip, model, sample, counts[-1]))
    except TacitError as error:
        row["later"] = error.message[:200]
    except Exception as error:
        row["stopped"] = f"{type(error).__name__}: {str(error)[:200]}"
    return row


def _off_at(clip: Clipper, model: Around, sample: Any, count: int) -> float:
    batch = batch_of(sample, model, count)
    return 0.0 if batch is None else off(clip, model, batch)


def counts_of(sample: Any) -> tuple[int, ...]:
    """Sizes of batches, among them those of the sample's axes."""
    axes = {size for leaf in sample.leaves for size in leaf.shape if 2 <= size <= 5}
    return tuple(sorted({3, *list(axes)[:1]}))


def looked_at(name: str, spellings: list[str], most: int) -> list[dict[str, Any]]:
    """All models of an operator."""
    rows = []
    for number, (sample, info) in enumerate(cases(name, most)):
        for spelling in spellings:
            model = around(sample, info, SPELLINGS[spelling])
            if model is None:
                continue
            began = time.perf_counter()
            row = tried(model, sample, counts_of(sample))
            if row is not None:
                seconds = round(time.perf_counter() - began, 2)
                rows.append({"operator": name, "sample": number, "spelling": spelling, **row, "seconds": seconds})
    return rows


def apart(name: str, spellings: list[str], most: int) -> list[dict[str, Any]]:
    """`looked_at` in a process of its own: one that ends is a row, too."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        gc.freeze()  # torch's tests are many objects, and the engine asks who refers to a function of the model
        warnings.filterwarnings("ignore")
        try:
            sent = looked_at(name, spellings, most)
        except BaseException as error:
            sent = [{"operator": name, "way": "not tried", "why": f"{type(error).__name__}: {str(error)[:200]}"}]
        theirs.send(sent)
        theirs.close()
        os._exit(0)
    theirs.close()
    try:
        found: list[dict[str, Any]] = ours.recv()
    except EOFError:
        found = []
    _, status = os.waitpid(child, 0)
    if status:
        what = "took too long" if os.WTERMSIG(status) == signal.SIGALRM else "ended the process"
        return [{"operator": name, "way": what, "why": f"status {status}"}]
    return found


def broken(row: dict[str, Any]) -> str:
    """What a row breaks of what is promised; empty if nothing."""
    if row["way"] in ("ended the process", "crashed") or row.get("stopped"):
        return "stopped"
    if max(row.get("removed", 0.0), row.get("odd", 0.0)) > ROOM:
        return "bound"
    if row.get("others", 0.0) > 1e-5:
        return "others"
    if row.get("off", 0.0) > 1e-4:
        return "sum"
    if row.get("odd off", 0.0) > 1e-4:
        return "odd sum"
    return ""


def swept(names: list[str], spellings: list[str], most: int, path: Path | None) -> list[dict[str, Any]]:
    """All rows; a run goes on where the last one with this file stopped."""
    rows: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.is_file() else {}
    for number, name in enumerate(names):
        asked = [one for one in spellings if f"{name}, {one}" not in rows]
        found = apart(name, asked, most) if asked else []
        for one in asked:
            rows[f"{name}, {one}"] = [row for row in found if row.get("spelling", one) == one]
        for row in found:
            if broken(row):
                print(broken(row).upper(), json.dumps(row), flush=True)
        if path is not None and (number % 20 == 19 or number == len(names) - 1):
            path.write_text(json.dumps(rows))
            print(number + 1, "of", len(names), flush=True)
    return [row for found in rows.values() for row in found]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many models run how; for each operator the largest figures of those at once, and every other model."""
    operators: dict[str, Any] = {}
    for row in rows:
        mine = operators.setdefault(row["operator"], {"way": "at once", "spellings": [], "others run": []})
        if row["way"] != "at once":
            kept = {key: row[key] for key in ("spelling", "way", "why", *FIGURES) if key in row}
            mine["others run"].append(kept)
            continue
        mine["spellings"].append(row["spelling"])
        for key in FIGURES:
            mine[key] = float(f"{max(mine.get(key, 0.0), row.get(key, 0.0)):.6g}")
    counts = dict(Counter(row["way"] for row in rows))
    return {"models": len(rows), "operators": len(operators), "ways": counts, "by operator": operators}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--spellings", nargs="*", default=list(SPELLINGS))
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--rows", type=Path, help="a file for all rows, with which a run goes on")
    given = parser.parse_args()
    every = [*operators(), *modules()]
    names = (given.only or every)[:: 20 if given.quick else 1]
    rows = swept(names, given.spellings, given.samples, given.rows)
    print(Counter(row["way"] for row in rows), "broken:", Counter(filter(None, map(broken, rows))))
    if not given.quick and not given.only:
        keep(NAME, describe("torch"), summary(rows))


if __name__ == "__main__":
    main()
