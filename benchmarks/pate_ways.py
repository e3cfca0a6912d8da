"""One budget, three ways: answers per query, a student of PATE, and DP-SGD; over epsilon and predictions needed.

All three ways get the same features and linear models: scattering features of MNIST, which are made of no data, and
the columns of Adult. Each seed repeats all of it: shards, teachers, noise, student, and the training by DP-SGD.

How each way is set up was chosen beforehand, and that choice is not in epsilon. DP-SGD on MNIST: on the last tenth of
the training records (accuracy.py), here with half as many epochs. The noise of the student's answers: on public inputs
that do not test.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import nn

import accuracy
import tacit
from pate_costs import answers_for
from pate_networks import adult
from pate_picture import DP_SGD, MAJORITY, PER_QUERY, STUDENT, picture
from tacit.core import Adjacency, source
from tacit.mechanism.choices import Distances, permuted
from tacit.pate import FixMatch, GNMax, Network, Supervised
from tacit.pate.asking import next_queries
from tacit.pate.prediction import _priced
from tacit.pate.shards import shards
from tacit.pate.student import Student
from tacit.pate.teachers import train
from tacit.train import Speed
from tacit.train.recipe.scattering import Scattering

DELTA, TEACHERS, JUDGED = 1e-5, 250, 2000
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PREDICTIONS = (1, 10, 100, 1000, 10_000)
QUICK = 4000, 2000
"""Private records, and all others, of a run that only shows that everything works."""
TYPICAL = 1000
"""Queries up to which the middles of groups are asked about; more than that are the first ones."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A data set with what each way uses on it; `noise` (votes) of the student's answers, by epsilon."""

    private: tuple
    public: np.ndarray
    truth: np.ndarray
    test: tuple
    teacher: Network
    student: Student
    noise: tuple[float, ...]
    descent: dict

    @property
    def classes(self):
        return int(self.private[1].max()) + 1


def mnist(device, quick):
    """The 60,000 training pictures are private, 9,000 test pictures public, and the last 1,000 test."""
    x, y, test_x, test_y = few_features() if quick else accuracy.features("mnist", torch.device(device))
    x, test_x = (accuracy.normalised(part, 27).flatten(1).numpy() for part in (x, test_x))
    y, test_y = (part.numpy().astype(np.int64) for part in (y, test_y))
    make, public = _linear(x.shape[1], 10), len(test_y) - 1000
    return Setting(
        (x, y), test_x[:public], test_y[:public], (test_x[public:], test_y[public:]),
        Network(make, steps=60, batch_size=32, lr=1e-3, device=device),
        FixMatch(Network(make, steps=300, batch_size=32, lr=1e-3, device=device)),
        (70, 45, 45, 70, 70), {"epochs": 10, "batch_size": 4096, "clip_norm": 0.1, "lr": 4.0},
    )  # fmt: skip


def few_features():
    """Scattering features of some pictures, as `accuracy.features` makes those of all."""
    x, y, test_x, test_y = accuracy.images("mnist")
    private, others = QUICK
    scattering = Scattering(*x.shape[2:])
    made = (torch.from_numpy(accuracy.transformed(part, scattering)) for part in (x[:private], test_x[:others]))
    x, test_x = made
    return x, torch.from_numpy(y[:private]), test_x, torch.from_numpy(test_y[:others])


def table(device, quick):
    """Adult: the training split is private, half of the test split public, and the other half tests."""
    (x, y), (test_x, test_y) = adult()
    if quick:
        x, y, test_x, test_y = x[: QUICK[0]], y[: QUICK[0]], test_x[: QUICK[1]], test_y[: QUICK[1]]
    half, make = len(test_y) // 2, _linear(x.shape[1], 2)
    return Setting(
        (x, y), test_x[:half], test_y[:half], (test_x[half:], test_y[half:]),
        Network(make, steps=200, batch_size=32, lr=0.02, device=device),
        Supervised(Network(make, steps=300, batch_size=64, lr=0.01, device=device)),
        (70, 40, 70, 40, 40), {"epochs": 30, "batch_size": 2048, "clip_norm": 0.5, "lr": 4.0},
    )  # fmt: skip


def _linear(features, classes):
    return lambda: nn.Sequential(nn.Linear(features, classes))


def ways(bench):
    """Rows of all ways with mean, least and most over the seeds, and the picture; of one data set and seed, no rows."""
    rows = []
    for name, made in (("mnist", mnist), ("adult", table)):
        if bench.row is None or bench.row.startswith(name):
            rows += [
                {"data": name, **row} for row in _over_seeds(measured(bench, name, made(bench.device, bench.quick)))
            ]
    if bench.row is None:
        picture(rows, bench.path.with_name(bench.path.with_suffix(".svg").name.replace("pate", "pate-ways")))
    return rows


def measured(bench, name, setting):
    """All rows of one data set, each of one seed; those that are in the cache are not measured again."""
    rows = []
    for seed in range(bench.seeds):
        if bench.row not in (None, name, f"{name} {seed}"):
            continue
        rows += bench.kept(f"{name} votes {seed}", lambda seed=seed: voted(setting, seed))
        for epsilon in EPSILONS:
            own = {"seed": seed, "epsilon": epsilon}
            found = bench.kept(f"{name} DP-SGD {epsilon:g} {seed}", lambda own=own: private(setting, **own))
            rows.append({"way": DP_SGD, "epsilon": epsilon, "accuracy": found})
    return rows


def voted(setting, seed):
    """All that one ensemble of teachers is asked."""
    x, y = setting.private
    shard = shards(len(y), TEACHERS, rng=source(10 * seed))
    made = train(setting.teacher, x, y, shard, teachers=TEACHERS, classes=setting.classes, rng=source(10 * seed + 1))
    asked, judged = made.counts(setting.public), made.counts(setting.test[0][:JUDGED])
    truth = setting.test[1][:JUDGED]
    rows = [{"way": MAJORITY, "accuracy": _right(judged.argmax(1), truth)}]
    for epsilon, noise in zip(EPSILONS, setting.noise, strict=True):
        for number in PREDICTIONS:
            _, spread = _priced(epsilon, DELTA, number, Adjacency.ADD_REMOVE)
            told = answered(judged, spread, source(10 * seed + 2))
            rows.append({"way": PER_QUERY, "epsilon": epsilon, "predictions": number, "accuracy": _right(told, truth)})
        rows.append({"way": STUDENT, "epsilon": epsilon, **student(setting, asked, epsilon, noise, seed)})
    return rows


def answered(counts, noise, chance):
    """One noisy answer about each row: permute and flip, or Gaussian noise."""
    if isinstance(noise, Fraction):
        return np.array([permuted(Distances(row, noise), chance) for row in counts])
    return GNMax(noise).told(counts, chance, len(counts)).labels


def student(setting, counts, epsilon, noise, seed):
    """A student of as many answers as epsilon pays for at this noise, at most half of the public inputs."""
    rule = GNMax(noise)
    answers = min(answers_for(epsilon, rule, DELTA), len(setting.public) // 2)
    choose, nobody = "typical" if answers <= TYPICAL else "first", np.array([], dtype=np.int64)
    asked = next_queries(setting.public, answers, nobody, choose, None, source(10 * seed + 3))
    labels = np.full(len(setting.public), -1)
    labels[asked] = rule.told(counts[asked], source(10 * seed + 4), answers).labels
    predict = setting.student.taught(setting.public, labels, setting.classes, np.random.default_rng(seed))
    found = predict(setting.test[0]).argmax(1)
    return {
        "answers": answers, "noise": noise, "right answers": _right(labels[asked], setting.truth[asked]),
        "accuracy": _right(found, setting.test[1]),
    }  # fmt: skip


def private(setting, epsilon, seed):
    """DP-SGD at the same budget, on the same private records and features, tested on the same ones."""
    x, y = setting.private
    how = dict(setting.descent)
    rate, how["batch_size"] = how.pop("lr"), min(how["batch_size"], len(y))
    plan = tacit.plan(len(y), epsilon=epsilon, delta=DELTA, **how)
    model = setting.teacher.make()
    for value in model.parameters():
        nn.init.zeros_(value)
    device = setting.teacher.device
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    data = torch.as_tensor(x, device=device), torch.as_tensor(y, device=device)
    tacit.fit(model, data, plan, optimizer=optimizer, rng=seed, average="ema", speed=Speed(compile=False))
    with torch.no_grad():
        found = model.eval()(torch.as_tensor(setting.test[0], device=device)).argmax(1).cpu().numpy()
    return _right(found, setting.test[1])


def _right(found, truth):
    return round(float((found == truth).mean()), 4)


def _over_seeds(found):
    """One row for each way and setting, with mean, least and most of its numbers."""
    groups = {}
    for row in found:
        key = tuple(row.get(name) for name in ("way", "epsilon", "predictions", "answers", "noise"))
        groups.setdefault(key, []).append(row)
    rows = []
    for same in groups.values():
        shares = [row["accuracy"] for row in same]
        mean = {name: round(float(np.mean([row[name] for row in same])), 4)
                for name in ("accuracy", "right answers") if name in same[0]}  # fmt: skip
        rows.append({**same[0], **mean, "least": min(shares), "most": max(shares), "seeds": len(same)})
    return rows
