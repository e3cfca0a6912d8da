"""Take every guard of private training away, one at a time, and run the test that must notice.

    python benchmarks/guards.py            all guards; what is in the result file already is not run again
    python benchmarks/guards.py --quick    the first five, into no file
    python benchmarks/guards.py --only "inner products cancel"

A guard is taken away in a copy of the sources: one passage is replaced by what would stand there without it. The test
then runs on the copy and must fail. The guards and their tests are those of tests/contract/test_train_guards.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import RESULTS, describe, keep

ROOT = Path(__file__).resolve().parents[1]
NAME = "guards"
CLIP, TRAIN, FLEET = "tacit/train/clip", "tacit/train", "tacit/fleet"


@dataclass(frozen=True)
class Without:
    """How a guard is taken away: in `file`, `old` becomes `new`."""

    file: str
    old: str
    new: str


AS_A_BATCH = """        losses = self.losses(batch)
        every = list(self.parameters.values())
        rows = [torch.autograd.grad(one, every, retain_graph=True, allow_unused=True) for one in losses]
        from .rules.terms import Dense
        from .sums import clipped_terms
        terms = {
            name: [Dense(torch.stack([row[place] for row in rows]))]
            for place, name in enumerate(self.parameters)
            if rows[0][place] is not None
        }
        with torch.no_grad():
            return clipped_terms(self.parameters, terms, losses.detach(), mask, self.clip_norm, self.weigh, self.add)
        forward ="""
GUARDS: dict[str, Without] = {
    "records meet in a batch": Without(f"{CLIP}/clipper.py", "        forward =", AS_A_BATCH),
    "a tensor of an earlier pass is read": Without(
        f"{CLIP}/capture/watch.py", "if known is None or known() is not tensor:", "if False:"),
    "a record sees what an earlier one left": Without(
        f"{CLIP}/isolation/surroundings.py", "with self._entered(seed), decimal.localcontext():", "if True:"),
    "an object that cannot be put back carries data": Without(
        f"{CLIP}/clipper.py", "        if structure.together:\n            return\n        lost, idle",
        "        return\n        lost, idle"),
    "a loss keeps records in closures, buffers, objects": Without(
        f"{CLIP}/clipper.py", "return Surroundings(self.model, self.loss, self.parameters, called",
        "return Surroundings(called"),
    "coins fall anew for every part of a step": Without(
        f"{CLIP}/capture/coins.py", "return draw() if coins is None else coins.next(kind, draw)", "return draw()"),
    "random numbers of records are known": Without(
        f"{CLIP}/capture/coins.py", "            seed_wholly(self._key, read=self._read)\n", "            pass\n"),
    "random numbers of records follow from 32 bits": Without(
        f"{CLIP}/capture/coins.py", "    torch.default_generator.set_state(state)\n",
        '    torch.default_generator.manual_seed(int.from_bytes(key[:8], "little") >> 1)\n'),
    "hooks and modes are shown all records": Without(
        f"{CLIP}/capture/watch.py", "if what := onlooker(func, tensors):", "if what := '':"),
    "hooks of the backward pass do not run": Without(
        f"{CLIP}/clipper.py", "if structure.together and backward_hooks(", "if False and backward_hooks("),
    "a library keeps records": Without(
        f"{CLIP}/isolation/surroundings.py", "sys.settrace(self._call)\n        try:", "try:"),
    "a pass that a value stops leaves something": Without(
        f"{CLIP}/capture/watch.py", "self.level) if own and by_values", "self.level) if False and by_values"),
    "a pass with constants in it is taken": Without(
        f"{CLIP}/capture/watch.py", "            raise Failing(self.failing)\n", "            pass\n"),
    "a batch that runs again holds what code wrote into it": Without(
        f"{CLIP}/sums.py", "capture.enter(rows.clone())", "capture.enter(rows)"),
    "a loss that mixes looks random, since it writes into its records": Without(
        f"{CLIP}/capture/probe.py", "partial(loss, mapped(torch.clone, batch))", "partial(loss, batch)"),
    "memory that nobody wrote holds other records": Without(
        f"{CLIP}/capture/unwritten.py", "    if not name:\n", "    if True:\n"),
    "who raises in the backward pass is not found": Without(
        f"{CLIP}/replaced.py", "    if not go(torch.zeros_like(mask)):\n", "    if True:\n"),
    "a run that failed is repeated with other numbers": Without(
        f"{CLIP}/clipper.py", "structure), batch, mask, alike)", "structure), batch, mask, drawn_alike(mask.device))"),
    "something is changed while the backward pass runs": Without(
        f"{CLIP}/capture/keeping.py", "looked_backwards(run, lambda: between.append(now.otherwise()))", "run()"),
    "a pass counts by an iterator": Without(
        f"{CLIP}/isolation/hidden.py", "else not alike(now, self.noted)", "else False"),
    "a switch leads to code that nobody looked at": Without(
        f"{CLIP}/modes.py", "    return tuple([pair for pair in found if type(pair[1]) in kinds])", "    return ()"),
    "a number of the model is baked into a compiled step": Without(
        f"{CLIP}/compile/compiled.py", "return self.clipper.modes()", "return ()"),
    "fresh random numbers fall once for every part": Without(
        f"{CLIP}/capture/keeping.py", "if not repeats(lambda: [run()[1]], tidy):", "if False:"),
    "a generator of the script tells the number of passes": Without(
        f"{CLIP}/isolation/reach.py", "if not foreign(name) and not installed(name):\n            self.enclosed",
        "if False:\n            self.enclosed"),
    "an augmentation counts its calls": Without(
        f"{TRAIN}/sample/per_record.py", "    at_once = _leaves_nothing(function, first)\n", "    at_once = True\n"),
    "code asks how records lie in memory": Without(
        f"{CLIP}/capture/watch.py", "if private and (what := unanswered(func, result, tensors, self.level)):",
        "if what := '':"),
    "code asks how much memory is in use": Without(
        f"{CLIP}/capture/coins.py", "and _asked_by_others(frame.f_back):", "and False:"),
    "a shape depends on the values of all records": Without(
        f"{CLIP}/capture/watch.py",
        "if private and shaped_by_values(func, args, kwargs, self.level.owns):", "if False:"),
    "packed sequences tell the lengths of all records": Without(
        f"{CLIP}/capture/functions.py", "if name in _PACKED:", "if False:"),
    "an operator by its own name reads the next record's table": Without(
        f"{CLIP}/capture/ranges.py", "function = _function(func)", "function = func"),
    "padding of a record's own table has a gradient": Without(
        f"{CLIP}/capture/rows.py", "if padding_idx is None or not level.owns(weight):", "if True:"),
    "a region names the image of another record": Without(
        f"{CLIP}/capture/ranges.py", "{REGIONS: _regions, ", "{"),
    "torch gives the gradient of several largest numbers to one": Without(
        f"{CLIP}/capture/rows.py", "if args or kwargs or not level.direct(values):", "if True:"),
    "a probability that is none stops a GPU": Without(
        f"{CLIP}/capture/domains.py", "proper = (values >= 0) & (values <= 1)", "proper = values == values"),
    "an operator reads memory without a look": Without(
        f"{CLIP}/capture/ranges.py", "if unsafe and any(", "if False and any("),
    "indices of a sparse tensor are believed": Without(
        f"{CLIP}/capture/ranges.py", "check_sparse_tensor_invariants.enable()", "pass"),
    "an index within torch.vmap is moved and its record counts": Without(
        f"{CLIP}/capture/level.py", "C.is_functorch_wrapped_tensor(off) and not self.direct(off)", "False"),
    "random numbers inside an operation take a parameter's gradient": Without(
        f"{CLIP}/capture/watch.py",
        'raise no_rule(func, self.names(used), "it draws random numbers of every record\'s own")', "pass"),
    "a loss that draws random numbers is not compared": Without(
        f"{CLIP}/capture/probe.py", "return _same_drawn(", "return True or ("),
    "terms take the length of a tensor that is gone": Without(
        f"{CLIP}/sums.py", "shown.append(record.first(gradient))", "shown[:] = [record.first(gradient)]"),
    "an augmentation catches what an operation raises": Without(
        f"{TRAIN}/sample/per_record.py", "        capture.check_caught()\n", ""),
    "a result comes from an earlier pass": Without(
        f"{CLIP}/capture/watch.py", "for tensor in results:\n            self._own(tensor)\n", "pass\n"),
    "code of an autograd function is not watched": Without(
        f"{CLIP}/capture/nested.py", "return theirs(partial(_seen, capture, function), *rest)",
        "return theirs(function, *rest)"),
    "the text of a tensor is given in another thread": Without(
        f"{CLIP}/capture/nested.py", "    if is_batchedtensor(tensor):\n", "    if False:\n"),
    "a function that only C code holds keeps records": Without(
        f"{CLIP}/isolation/surroundings.py", " or self._unheld(frame, code)", ""),
    "an operator of others is taken": Without(
        f"{CLIP}/capture/watch.py", "if tensors and (name := stranger(func)):", "if name := '':"),
    "a record changes the coins of others": Without(
        f"{CLIP}/clipper.py", "        rewound()\n", ""),
    "a record that raises changes how others are rounded": Without(
        f"{CLIP}/clipper.py", "if found is not None:\n            return found\n        with alike", "with alike"),
    "one at a time, an infinite loss counts": Without(
        f"{CLIP}/alone.py", "value, here, clip_norm", "value, here & value.isfinite(), clip_norm"),
    "a record that fails changes how others are rounded": Without(
        f"{CLIP}/replaced.py", "while turn < TRIES:\n", "while False:\n"),
    "a record at which a graph raises stops a run": Without(
        f"{CLIP}/compile/compiled.py", "return self.again(batch, mask, alike)\n\n    def", "raise\n\n    def"),
    "coins are baked into a compiled step": Without(
        f"{CLIP}/clipper.py", "self._precision(), not_baked_in(), uncompiled", "self._precision(), uncompiled"),
    "torch computes something of all records": Without(
        f"{CLIP}/capture/watch.py", "if private and not gives_shape(func) and", "if False and"),
    "a mode around the training sees all records": Without(
        f"{CLIP}/capture/onlookers.py", "(*dispatch_modes(), *function_modes())", "dispatch_modes()"),
    "objects of torch's classes are believed": Without(
        f"{CLIP}/capture/onlookers.py", "if not isinstance(one, FunctionType | type):", "if False:"),
    "torch reads beside a table": Without(
        f"{CLIP}/capture/ranges.py",
        "PLACES |= dict.fromkeys((F.ctc_loss, torch.ctc_loss, torch._ctc_loss), _ctc)", ""),
    "a record goes where another was stopped": Without(
        f"{CLIP}/isolation/surroundings.py", "            self._forget(mark, before)\n", ""),
    "a stopped record goes on": Without(
        f"{CLIP}/isolation/surroundings.py", "        sys.setprofile(self._watch_again)\n", ""),
    "a library keeps records in a thread": Without(
        f"{CLIP}/isolation/surroundings.py", "threading.settrace(self._call)", "threading.settrace(None)"),
    "how many passes there were is seen": Without(
        f"{CLIP}/clipper.py", "return Structure(together=False, reason=what)", "return structure"),
    "a rule for vmap that sees all records": Without(
        f"{CLIP}/capture/nested.py", "raise own_rule(function.__name__)", "pass"),
    "an operator with a rule for vmap": Without(f"{CLIP}/capture/watch.py", "raise own_rule(name)", "pass"),
    "a batch norm layer mixes its batch": Without(
        f"{CLIP}/capture/functions.py", 'if _given(args, kwargs, 5, "training"):', "if False:"),
    "inner products cancel": Without(
        f"{CLIP}/rounding.py", "return 1.01 * ROUND64 *", "return 0.0 * ROUND64 *"),
    "a squared length is too little": Without(
        f"{CLIP}/rules/outer.py", ".clamp(min=0) + error * self._reaches(memo).square()", ".clamp(min=0)"),
    "TF32 rounds factors": Without(
        f"{CLIP}/arrays.py", "return COARSE[matmul_precision()] if", "return 0.0 if"),
    "sums in less than float32": Without(
        f"{CLIP}/arrays.py", 'torch.set_float32_matmul_precision("high" if tf32 else "highest")\n    torch.backends',
        "torch.backends"),
    "bfloat16 rounds factors": Without(
        f"{CLIP}/rules/outer.py", "return _both(unit(self.left) ** 2 * bound, 3", "return _both(0.0 * bound, 3"),
    "weights leave no room for rounding": Without(
        f"{CLIP}/sums.py", "lengths = squares.sqrt() + group_slack(terms, squares, weigh, memo)",
        "lengths = squares.sqrt()"),
    "a mixture of terms is written out": Without(
        f"{CLIP}/rules/terms.py", "parts = [term.slack2(memo) + (ROUND", "parts = [term.slack2(memo) + (0.0"),
    "squares underflow": Without(f"{CLIP}/rounding.py", "LOST = 2.0**-63", "LOST = 0.0"),
    "squares overflow": Without(
        f"{CLIP}/rules/outer.py", "torch.where(largest <= LARGE**2, found, torch.inf)", "found"),
    "long gradients are measured in one sum": Without(f"{CLIP}/arrays.py", "PART = 1024", "PART = 2**30"),
    "a word is looked up very often": Without(
        f"{CLIP}/rules/terms.py", "if not rows.is_cuda and (traced(rows) or _often(index)):", "if False:"),
    "sums over very many records": Without(
        f"{CLIP}/rounding.py", "return _moved(sway, weight).sum() * ROUND >", "return 0 * mask.sum() * ROUND >"),
    "float64 is not enough": Without(
        f"{CLIP}/rounding.py", "return torch.where(moved > room, weight * (room / moved), weight)", "return weight"),
    "a sample larger than expected": Without(
        f"{TRAIN}/scale/totals.py", "larger = len(batch.index) > self.most", "larger = False"),
    "experts' rows are told apart": Without(f"{CLIP}/rules/experts.py", ">= ends[:, None, :]", "> ends[:, None, :]"),
    "padding of an embedding bag counts": Without(
        f"{CLIP}/rules/expansions.py", "if padding_idx is None else index != padding_idx % len(weight)", ""),
    "a compiled step that does not clip": Without(
        f"{CLIP}/compile/compiled.py", "        if not within or not agree(", "        if False and not agree("),
    "the noise has another scale": Without(
        f"{TRAIN}/noise/release.py", "return self.plan.noise_multiplier * clip_norm",
        "return 0.95 * self.plan.noise_multiplier * clip_norm"),
    "noise on a grid has another scale": Without(
        f"{TRAIN}/noise/grid.py", "Rounded((Fraction(noise_multiplier)", "Rounded((Fraction(0.95 * noise_multiplier)"),
    "the noise of the clip norm's count": Without(
        f"{CLIP}/adaptive.py", "float(rng.normal()) * DECISION", "float(rng.normal()) * 0.9 * DECISION"),
    "a step that was broken off is taken again": Without(
        f"{TRAIN}/step.py", "if not self.unbroken:", "if False:"),
    "a step that one of several processes broke off is taken again": Without(
        f"{TRAIN}/step.py", "self.unbroken &= self._workers.count == 1", "pass"),
    "another thread seeds this one's random numbers": Without(
        "tacit/core/global_randomness.py", "    with _turn:\n", "    if True:\n"),
    "two sums have noise of one key": Without(
        f"{TRAIN}/noise/keys.py", "code.update(one.detach().cpu()", "code.update(one.detach().cpu().bfloat16()"),
    "a module that is exchanged is not looked at": Without(
        f"{CLIP}/modes.py", 'f"{type(module).__qualname__} {id(type(module))}"', '""'),
    "a list changes its order within a pass": Without(
        f"{TRAIN}/sample/examples.py", "data = list(data) if type(data) is list else data", "pass"),
    "processes take other parts of a random data set": Without(
        f"{TRAIN}/terms.py", "while isinstance(data, Subset):", "while False:"),
    "correlated noise is another": Without(
        f"{TRAIN}/noise/correlated.py", "fresh.sub_(earlier, alpha=share)", "fresh.sub_(earlier, alpha=0.9 * share)"),
    "samples are drawn at another rate": Without(
        f"{TRAIN}/sample/draw.py", "scale = math.log1p(-rate)", "scale = math.log1p(-1.03 * rate)"),
    "one record decides the kind of numbers": Without(
        f"{TRAIN}/sample/collate.py", "if count > 1] or kinds[:1]", "if count > 0]"),
    "a tensor that cannot stand beside others": Without(
        f"{TRAIN}/sample/collate.py", "        return _dense(value)\n", "        return value\n"),
    "a record that panics stops a run": Without(
        f"{TRAIN}/sample/items.py", "except BaseException:  # whatever", "except Exception:  # whatever"),
    "one element decides the kind of a column": Without(
        f"{TRAIN}/sample/columns.py", "return found if usual else values", "return found"),
    "all records reach every loss as a constant": Without(
        f"{TRAIN}/sample/columns.py", 'if not hasattr(data, "__array__"):', "if False:"),
    "one id merges other users": Without(
        f"{TRAIN}/sample/users.py", 'kind = getattr(ids, "dtype", None)',
        "ids = np.asarray(ids)\n    kind = ids.dtype"),
    "autocast around a step": Without(
        f"{TRAIN}/step.py", "with ordinary_modes(self.device):\n                found",
        "if True:\n                found"),
    "a step that was broken off leaves its gradient": Without(
        f"{TRAIN}/step.py", "            self._release.withdraw()\n", ""),
    "autocast around a fleet": Without(
        f"{FLEET}/fleet.py", ", ordinary_modes(torch.device(self.device)):", ":"),
    "a fleet's positions cancel": Without(
        f"{FLEET}/certified.py", "return length + SPARE * ROUND", "return length + 0.0 * ROUND"),
    "a fleet's squares underflow": Without(
        f"{FLEET}/certified.py", "squared.sqrt() + math.sqrt(count) * LOST", "squared.sqrt()"),
    "a fleet's sums in float32": Without(
        f"{FLEET}/certified.py", "moved * ROUND > self.clip_norm", "moved * 0.0 > self.clip_norm"),
    "a model's rounding hangs on other models": Without(
        f"{FLEET}/certified.py", "torch.where(_wide(self.rough, one), wide[name].float(), one)",
        "wide[name].float()"),
    "a fleet's model keeps records": Without(
        f"{FLEET}/stack.py", 'return self._around.run(int(torch.randint(2**62, (), device="cpu")), run)',
        "return run()"),
    "a fleet's random numbers are known": Without(
        f"{FLEET}/fleet.py", "with drawn_from(draws.key(step), batch.x.device, read=True) if models.draws else",
        "with"),
    "a fleet's model is shown several records": Without(
        f"{FLEET}/stack.py", "        with apart() as looking:\n",
        "        from .vmap_guard import Apart\n\n        looking = Apart()\n        if True:\n"),
    "a pass goes on with records in another order": Without(
        f"{TRAIN}/course.py", "DATA not in self.terms and step.plan.steps_per_draw == 1:", "DATA not in self.terms:"),
    "a batch of another step is taken": Without(
        f"{TRAIN}/step.py", "if batch is not self._given or batch.order", "if batch.order"),
    "a step is taken by two at once": Without(
        f"{TRAIN}/course.py", "        return self._lock\n", "        return __import__('contextlib').nullcontext()\n"),
    "a saved state is changed by later steps": Without(
        f"{TRAIN}/state.py", "return copy.deepcopy(_saved(step))", "return _saved(step)"),
    "a refused state leaves half of itself": Without(
        f"{TRAIN}/state.py", "        step.model.load_state_dict(was[0][0])\n", ""),
    "a loaded pass goes on with records in another order": Without(
        f"{TRAIN}/step.py", "if self.course.restored != restored:", "if False:"),
    "a step that was broken off leaves its random numbers": Without(
        f"{TRAIN}/step.py", "            draws.restore()\n", ""),
    "a record leaves a lock, a struct or a dtype": Without(
        f"{CLIP}/isolation/c_objects.py", "            self.put(self.noted)\n", "            pass\n"),
    "a record leaves a setting of torch": Without(
        f"{CLIP}/isolation/settings.py", "                put(noted)\n", "                pass\n"),
    "a record leaves a setting of the process": Without(
        f"{CLIP}/isolation/settings.py", "    (_folder, _enter),\n", ""),
    "a record leaves a mode in force": Without(
        f"{CLIP}/isolation/settings.py", "    for _ in now[kept:]:\n        pop()\n", ""),
    "a record ends a mode": Without(
        f"{CLIP}/isolation/settings.py", "    for mode in noted[kept:]:\n        push(mode)\n", ""),
    "a record writes into a sparse tensor": Without(
        f"{CLIP}/isolation/memory.py", "                part.copy_(noted)\n", "                pass\n"),
    "a record counts children of a generator": Without(
        f"{CLIP}/isolation/memory.py", "drawing.__setstate__((state, origin))", "drawing.state = state"),
    "a cache tells the first record from others": Without(
        f"{CLIP}/isolation/surroundings.py", "seed, InForce()\n        self._empty_caches()\n", "seed, InForce()\n"),
    "a segment ends in another record": Without(
        f"{CLIP}/capture/ranges.py", "name, 0, values.shape[axis], None)", "name, 0, values.shape[axis] + 9, None)"),
    "torch sums a slice's gradient over others": Without(
        f"{CLIP}/capture/rows.py", "ROWS[torch.select_scatter] = ROWS[Tensor.select_scatter] = put_in\n", ""),
    "strides are applied to the memory of all records": Without(
        f"{CLIP}/capture/questions.py", "if (name := _in_memory(func)) and", "if (name := '') and"),
    "a parameter stands where no rule looks": Without(
        f"{CLIP}/rules/operators.py", "if {id(tensor) for tensor, _ in found} == used:", "if True:"),
    "a fleet's record points beyond a table": Without(
        f"{FLEET}/vmap_guard.py", "args, kwargs, off = bounded(func, args, kwargs, ONE_RECORD)", "off = None"),
    "a fleet's label names no output": Without(
        f"{FLEET}/stack.py", "return (y < 0) | (y >= classes)", "return torch.zeros_like(y, dtype=torch.bool)"),
    "a fleet's record cannot be read": Without(
        f"{FLEET}/reading.py", "torch.where(known & read, labels.long(), NOBODY)", "labels.long()"),
    "a model of a fleet raises at a record": Without(
        f"{FLEET}/failing_records.py", "search.without() if isinstance(found, Exception) else found", "found"),
    "a fleet's step is repeated with what code wrote into its records": Without(
        f"{FLEET}/stack.py", "every(self.parameters, x.clone(), y)", "every(self.parameters, x, y)"),
    "a fleet's step is repeated with other numbers": Without(
        f"{FLEET}/failing_records.py", "            with again:\n", "            if True:\n"),
    "a compiled fleet is compared on private records": Without(
        f"{FLEET}/device.py", "*invented(x, y), torch.ones_like(mask)", "x, y, mask"),
    "models of a fleet meet in an optimizer": Without(
        f"{FLEET}/fleet.py", "        check_elementwise(optimizer)\n", "        pass\n"),
    "models of a fleet are taken for records": Without(
        f"{FLEET}/vmap_guard.py", "called(OF_OURS.get(func, func), args, kwargs)", "called(func, args, kwargs)"),
    "a fleet's gradients are not compared": Without(
        f"{FLEET}/agreement.py", "if not all(_close(one, alone[k][i]) for k, i, one in pairs):", "if False:"),
    "a fleet leaves hooks out": Without(
        f"{FLEET}/stack.py", "        if changed(layer):\n            return None\n", ""),
}  # fmt: skip


def tests() -> dict[str, str]:
    """For every guard the test that must fail without it, as pytest names it."""
    path = ROOT / "tests" / "contract" / "test_train_guards.py"
    spec = importlib.util.spec_from_file_location("guards_of_training", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {what: f"tests/{file}::{test}" for what, _, file, test in module.GUARDS}


def tried(without: Without, test: str, seconds: int = 220) -> dict[str, Any]:
    """Run a test on sources without a guard; `noticed` says whether it failed, as it must."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        path = Path(folder) / "src" / without.file
        text = path.read_text(encoding="utf-8")
        if text.count(without.old) != 1:
            return {"noticed": False, "why": f"the passage is there {text.count(without.old)} times"}
        path.write_text(text.replace(without.old, without.new), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test]
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("E  ", "FAILED", "ERROR"))]
    return {"noticed": done.returncode == 1, "why": lines[0][:150] if lines else done.stdout.strip()[-150:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--most", type=int, default=len(GUARDS), help="guards that are tried in this run at most")
    given = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    rows: dict[str, Any] = json.loads(path.read_text())["rows"] if path.is_file() and not given.quick else {}
    named = tests()
    left = [what for what in GUARDS if what in named and not rows.get(what, {}).get("noticed")]
    for what in (given.only or left)[: 5 if given.quick else given.most]:
        rows[what] = {"test": named[what], **tried(GUARDS[what], named[what])}
        print("noticed " if rows[what]["noticed"] else "MISSED  ", what, "|", rows[what]["why"], flush=True)
        if not given.quick:
            keep(NAME, describe("torch"), {name: rows[name] for name in GUARDS if name in rows})


if __name__ == "__main__":
    main()
