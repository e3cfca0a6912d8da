"""A model behind an API as a target: asked in batches, within a budget of queries, at a limited rate, and resumable.

    target = service.http("http://localhost:8000/v1/models/mine:predict", queries=20_000, journal="asked.jsonl")
    evidence = tacit.attack(target, members, nonmembers, fit=fit)

Answers may be shares, labels, or the first few classes with their shares. Every answer is written to the journal before
the next request, so that an attack which was interrupted, refused or out of budget goes on without asking again.
"""

from __future__ import annotations

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core import BadInput, NotFinished, check
from ..core.arrays import Array
from ..core.json_text import Json
from .class_names import in_the_kind_of
from .first_classes import by_label, shown_like, top_shares
from .records import size, take

Ask = Callable[[Any], Any]
TRIES, PAUSE = 4, 1.0
"""Requests for one batch before giving up, and seconds before the second of them; each pause is twice the last."""


NAME = "service"
"""The first line of a journal: whose answers it holds."""
BUSY = (408, 425, 429)
"""HTTP statuses that ask for the same request later."""
LONGEST = 60.0
"""Seconds that a service may ask to be left alone for."""


@dataclass(eq=False)
class Service:
    """predict(x) of a model that can only be asked: `ask` takes some records and gives an answer for each.

    `queries` is how many records may be asked about in all, `batch` how many in one request, `seconds` the least time
    between requests. An answer is a row of shares, a label, or a mapping from label to share (the first few classes),
    also as a list of {"label": ..., "score": ...}. `classes` names all classes, in any order, where answers name only
    some; labels that are none of these names are their places.
    `journal` is a file of answers already given; it holds what the model says of people, and only its owner may read
    it. `name` says which model it is (`http` takes the address): a journal of another model is refused.
    """

    ask: Ask
    queries: int | None = None
    batch: int = 100
    seconds: float = 0.0
    classes: Sequence[Any] | None = None
    journal: str | Path | None = None
    name: str = ""
    asked: int = 0
    _known: Json = field(default_factory=dict, repr=False)
    _last: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        check.whole("batch", self.batch)
        check.nonnegative("seconds", self.seconds)
        if self.queries is not None:
            check.whole("queries", self.queries)
        if self.journal is not None and Path(self.journal).exists():
            self._read(Path(self.journal))

    def __call__(self, x: object) -> Array:
        """Answers for all records, of which only those not known yet are asked for."""
        keys = _keys(x)
        todo = [row for row, key in enumerate(keys) if key not in self._known]
        todo = list({keys[row]: row for row in todo}.values())
        while todo:
            rows, todo = todo[: (many := self._within(len(todo)))], todo[many:]
            for row, answer in zip(rows, self._request(take(x, np.array(rows)), len(rows)), strict=True):
                self._keep(keys[row], answer)
        return self._table([self._known[key] for key in keys])

    def names_like(self, y: Array) -> Array | None:
        """Names of the columns in the kind of the labels `y`; None where labels are column numbers."""
        return None if self.classes is None else in_the_kind_of(y, self.classes)

    def shown(self, shares: Array, x: Any) -> Array:
        """Shares (records x classes) of another model, for each record of the classes that this service named for it.

        Reference models are looked at in this way, so that they are compared with the target as it is seen. Where the
        service names all classes, or answers with rows of shares, they stay as they are.
        """
        told = [self._known.get(key) for key in _keys(x)]
        if self.classes is None or not any(isinstance(answer, Mapping) for answer in told):
            return shares
        return shown_like([answer if isinstance(answer, Mapping) else {} for answer in told], shares, self.classes)

    def _within(self, left: int) -> int:
        """How many of the records that are left are asked about in the next request."""
        allowed = left if self.queries is None else self.queries - self.asked
        if allowed < 1:
            raise NotFinished(
                f"The budget of {self.queries} queries is used up with {left} records to go; what was said is kept.",
                fix="Allow as many queries more, with the same journal.",
            )
        return min(self.batch, left, allowed)

    def _request(self, part: object, count: int) -> list[object]:
        """One request, repeated after pauses where it fails."""
        pause = PAUSE
        for attempt in range(TRIES):
            time.sleep(max(0.0, self._last + self.seconds - time.monotonic()))
            self._last = time.monotonic()
            try:
                found = self.ask(part)
                break
            except OSError as problem:
                if attempt + 1 == TRIES:
                    raise NotFinished("The service did not answer; what it has said is kept.") from None
                time.sleep(max(pause, _asked_to_wait(problem)))
                pause *= 2
        answers = found.tolist() if isinstance(found, np.ndarray) else list(found)
        if len(answers) != count:
            raise BadInput(f"The service gave {len(answers)} answers to {count} records.")
        self.asked += count
        return [by_label(answer) for answer in answers]

    def _keep(self, key: str, answer: object) -> None:
        self._known[key] = answer
        if self.journal is None:
            return
        path = Path(self.journal)
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(json.dumps([NAME, self.name]) + "\n", encoding="utf-8")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, answer], default=_plain) + "\n")

    def _read(self, path: Path) -> None:
        """What was answered before; a last line that was cut off is asked for again."""
        text = path.read_text(encoding="utf-8")
        for line in text.splitlines():
            try:
                key, answer = json.loads(line)
            except ValueError:
                continue
            if key == NAME and answer != self.name:
                raise BadInput("The journal holds answers of another service.", fix="Name another file.")
            self._known[str(key)] = answer
        self._known.pop(NAME, None)
        self.asked = len(self._known)
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def _table(self, answers: list[Any]) -> Array:
        mappings = sum(isinstance(answer, Mapping) for answer in answers)
        if 0 < mappings < len(answers) or len({np.shape(answer) for answer in answers}) > 1:
            raise BadInput("The service must give answers of one kind and length to all records.")
        if not mappings:
            return np.asarray(answers)
        if any(isinstance(part, list | Mapping) for answer in answers for part in answer.values()):
            raise BadInput(
                "The service answers with objects that hold more than a number for each class.",
                fix="Give Service(ask) a function that takes the shares, or the label, out of each object.",
            )
        names = self.classes
        if names is None:
            raise BadInput("Answers that name some classes need all of them.", fix="Give classes=.")
        return top_shares(answers, names)


def http(
    url: str,
    *,
    send: str = "instances",
    receive: str = "predictions",
    timeout: float = 30.0,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Service:
    """A service that takes a JSON object with a list of records and gives one with a list of answers.

    The names are those of TensorFlow Serving and KServe. `headers` go with every request, such as
    {"Authorization": "Bearer ..."}; `more` are fields of `Service`. A request that is refused for its rate, or fails,
    is repeated (after the time that the service names, a minute at most).
    """

    if not url.lower().startswith(("http://", "https://")):
        raise BadInput("The address of a service must begin with http:// or https://.")

    def ask(part: object) -> list[object]:
        body = json.dumps({send: np.asarray(part).tolist()}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as problem:
            if problem.code in BUSY or problem.code >= 500:
                raise
            raise BadInput(
                f"The service refused a request with HTTP status {problem.code}.",
                fix="Look at its address, at headers= and at the form of a record.",
            ) from None
        except ValueError:
            raise BadInput("The service's answer is no JSON.") from None
        if not isinstance(found, dict) or not isinstance(found.get(receive), list):
            raise BadInput(f"The service's answer has no list named {receive}.")
        return list(found[receive])

    return Service(ask, **{"name": url, **more})


def by_votes(
    predict: Ask, noise: ArrayLike, *, copies: int = 10, classes: int, rng: int = 0
) -> Callable[[Array], Array]:
    """Shares of labels over `copies` of each record with normal noise: how firmly a model that gives labels holds one.

    `noise` is the standard deviation, for all features or for each. The target and its references must be asked in the
    same way (the label-only attack of Choquette-Choo et al. 2021, section 4.2). The record itself is the first copy.
    """
    check.whole("copies", copies)

    def votes(x: Array) -> Array:
        shift = np.random.default_rng(rng).normal(size=(copies, *x.shape)) * np.asarray(noise)
        shift[0] = 0.0
        share = np.zeros((len(x), classes))
        for part in shift:
            share[np.arange(len(x)), _places(np.asarray(predict(x + part)), classes)] += 1 / copies
        return share

    return votes


def _places(told: Array, classes: int) -> Array:
    """Predicted labels as column numbers below `classes`."""
    if told.ndim == 2 and told.shape[1] > 1:
        told = told.argmax(axis=1)
    told = told.reshape(len(told))
    if told.dtype.kind not in "biuf" or (told != np.floor(told)).any() or not ((told >= 0) & (told < classes)).all():
        raise BadInput(
            f"Votes need predicted labels that are whole numbers from 0 to {classes - 1}.",
            fix="Turn words into their places among all classes, for records and models alike.",
        )
    return told.astype(np.int64)


def synthesised(
    predict: Ask, ranges: ArrayLike, classes: int, count: int, rng: np.random.Generator, *, queries: int = 10_000
) -> tuple[Array, Array]:
    """Records for who has none: random ones, moved as long as the model grows surer (Shokri et al. 2017, Algorithm 1).

    `ranges` is features x (low, high). Gives records and the labels that the model is sure of; fewer than `count` where
    the queries do not last. They are for training reference models, never members or outsiders.
    """
    low, high = np.asarray(ranges, dtype=np.float64).T
    walkers = count

    def surety(asked: Array) -> Array:
        told = np.asarray(predict(asked))
        if told.shape != (walkers, classes) or told.dtype.kind not in "iuf":
            raise BadInput(
                f"Records are made up for a model that answers with {classes} shares for each record.",
                fix="Of a model that gives labels alone, use by_votes(...).",
            )
        return np.asarray(told[np.arange(walkers), wanted], dtype=np.float64)

    x = rng.uniform(low, high, (walkers, low.size))
    wanted = np.arange(walkers) % classes
    sure = surety(x)
    changed = max(1, low.size // 2)
    for step in range(max(0, queries // walkers - 1)):
        tried = x.copy()
        width = max(1, changed >> (step // 10))
        for row in tried:
            columns = rng.permutation(low.size)[:width]
            row[columns] = rng.uniform(low[columns], high[columns])
        found = surety(tried)
        better = found >= sure
        x[better], sure[better] = tried[better], found[better]
    kept = sure > 1 / classes
    return x[kept], wanted[kept]


def _keys(x: object) -> list[str]:
    """A name for every record, the same for the same record."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        rows = np.ascontiguousarray(x.reshape(len(x), -1).astype(np.float64))
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in rows]
    parts = [take(x, np.array([row])) for row in range(size(x))]
    return [hashlib.sha256(np.asarray(part).astype(str).tobytes()).hexdigest() for part in parts]


def _asked_to_wait(problem: OSError) -> float:
    """Seconds that a service asks to be left alone for, a minute at most; 0 where it asks for none."""
    told = problem.headers.get("Retry-After", "") if isinstance(problem, urllib.error.HTTPError) else ""
    return min(float(told), LONGEST) if str(told).isdigit() else 0.0


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else np.asarray(value).tolist()
