"""A linear model of a table by private minimisation (`tacit.erm`), where a run file leaves the way of training open.

A `Minimiser` stands where a descent has its `Plan`: public numbers from which event, claim and model follow. What is
needed to resume after an interruption is one secret. The key of the charge and the noise are derived from it and from
the data. So the same run done again pays nothing and draws the same noise. A secret is tied to its data, settings and
version of the code: it is refused for any other (soundness rules 9, 12 and 25).
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from .. import __version__ as version
from ..core import Adjacency, BadInput, Bound, Charger, Claim, Event, Receipt, Source, check, source
from ..core.arrays import Array
from ..core.files import Lasting, content, unwritten
from ..data import Records
from ..train import Trained
from ..train.loop import FINGERPRINT, fingerprint
from .run_file import RunFile
from .sealing import keyed_hash

OF_A_PLAN = {"epsilon", "delta", "adjacency", "public_size"}
"""Keys of [plan] that say what is promised; any other says how to descend."""
PASSES = 10
"""Passes over the records that a minimisation takes, about: for estimates of time."""
BYTES, MARK = 32, 64
"""Bytes of a run's secret, and of the mark beside it."""


def left_open(file: RunFile, records: Records) -> bool:
    """Whether a run file asks for a linear model of a table and not for one way of training it.

    Norms of records must follow from public facts, which a schema has; the unit must be one record, and there must be
    two classes: for more, a descent (`Plan`) is as good.
    """
    asked = file.get("plan").keys()
    return (
        file.get("model").get("kind") == "linear"
        and "epsilon" in asked
        and asked <= OF_A_PLAN
        and not file.get("train")
        and records.schema is not None
        and records.unit is None
        and records.classes == 2
        and importlib.util.find_spec("sklearn") is not None
    )


@dataclass(frozen=True)
class Minimiser:
    """The best of the methods of `tacit.erm` for a table of these public numbers, within epsilon at delta.

    Guarantee: `event`, charged before any noise is drawn.
    Caller ensures: records are rows of norm at most `norm_bound`, as their schema makes them; one row per person.
    """

    public_size: int
    features: int
    norm_bound: float
    epsilon: float
    delta: float
    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE)
    size_given: bool = True
    """Whether somebody said `public_size`; else it is the number of records, which the claim then takes as public."""

    @classmethod
    def of(cls, file: RunFile, records: Records, members: int) -> Minimiser:
        """From [plan], for a table of records with a schema."""
        from ..erm.linear import USUAL
        from ..erm.tables import row_norm

        assert records.schema is not None
        table, norm = file.get("plan"), USUAL * row_norm(records.schema)
        size, delta = (
            check.whole("public_size", table.get("public_size", members)),
            check.delta(table.get("delta", 1e-5)),
        )
        epsilon = check.positive("epsilon", table["epsilon"])
        adjacency = Adjacency.of(table.get("adjacency", "add-remove"))
        given = "public_size" in table
        return cls(size, records.x.shape[1], norm, epsilon, delta, adjacency, given)

    @property
    def expected_batch(self) -> float:
        """Records that a minimisation goes through, about, in all its passes."""
        return float(PASSES * self.public_size)

    @property
    def steps(self) -> int:
        """Noisy steps: one, unless the method is a descent."""
        return int(self._quoted[0].steps)

    @property
    def summary(self) -> str:
        """How it will be done, for the person who waits."""
        design = self._quoted[0]
        return f"{design.method} perturbation, noise multiplier {design.noise_multiplier:.4g}: {design.reason}"

    @property
    def event(self) -> Event:
        return self._quoted[1]

    def bound(self, delta: float) -> Bound:
        """The proven upper bound of the fit."""
        from ..erm.estimator import AT_MOST, SIZE

        more = AT_MOST.format(2 * self.public_size) if self.size_given else SIZE
        return replace(self._quoted[2], delta=delta).bound(self.event, (more,))

    @cached_property
    def _quoted(self) -> tuple[Any, Event, Any]:
        from ..erm.linear import quoted

        return quoted(self._estimator(None, None), self.public_size, self.features)

    def _estimator(self, rng: Any, ledger: Charger | None) -> Any:
        from ..erm import PrivateLogisticRegression

        return PrivateLogisticRegression(
            self.epsilon, self.delta, classes=[0, 1], adjacency=self.adjacency.value, norm_bound=self.norm_bound,
            public_size=self.public_size, ledger=ledger, random_state=rng,
        )  # fmt: skip

    def trained(
        self,
        make: Callable[[], nn.Module],
        data: tuple[Array, Array],
        rng: Any,
        *,
        ledger: Charger | None = None,
        checkpoint: Lasting | None = None,
        **_: Any,
    ) -> Trained:
        """Minimise, and put the weights into the network that `make` makes: a `Shortened` one."""
        x, y = np.asarray(data[0], dtype=np.float64), np.asarray(data[1])
        chance, key = source(rng), None
        if checkpoint is not None:
            secret, mark = _secret(checkpoint.path, lambda secret: self._mark(x, y, rng, secret))
            key, drawn = f"train-{mark[:32]}", Stream(secret + mark.encode())
            chance = drawn if chance.cryptographic else chance
        payer = ledger if ledger is None or key is None else Once(ledger, key)
        found = self._estimator(chance, payer).fit(x, y)
        model = _network(make(), found.coef_, found.intercept_)
        evidence = found.evidence().with_(claim=Claim(self.bound(self.delta), self.event))
        weights = fingerprint(model)
        named = {} if weights is None else {FINGERPRINT: weights}
        return Trained(model, evidence.with_(provenance={**evidence.provenance, **named}), ())

    def takes(self, fault: str) -> bool:
        """Whether a usual fault of this name can be planted exactly (`erm.planting`)."""
        from ..erm.planting import planted

        return planted(self._estimator(None, None), fault) is not None

    def faulty(self, fault: str, model: nn.Module, data: tuple[Array, Array], rng: Any) -> nn.Module:
        """The network with the weights of a minimisation that has a fault: for an audit's game, never for a release."""
        from ..erm.planting import planted

        wrong = planted(self._estimator(source(rng), None), fault)
        assert wrong is not None
        found = wrong.fit(np.asarray(data[0], dtype=np.float64), np.asarray(data[1]))
        return _network(model, found.coef_, found.intercept_)

    def _mark(self, x: Array, y: Array, rng: object, secret: bytes) -> str:
        """Data, settings, event, seed and version under a secret: what differs in any of them is another run."""
        seed = rng if isinstance(rng, int) else None
        return keyed_hash(x, y, secret + f"{self!r} {self.event!r} {seed} {version}".encode())


def _network(model: nn.Module, coef: Array, intercept: Array) -> nn.Module:
    """Logits of two classes whose difference is the decision."""
    layer = next(part for part in model.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[1] = torch.as_tensor(coef[0])
        layer.bias[1] = float(intercept[0])
    return model.eval()


class Stream(Source):
    """Words from a secret, by SHAKE-256: whoever does not hold it cannot tell them from chance."""

    name = "cryptographic, from a secret of the operating system, kept while the run lasts"
    cryptographic = True

    def __init__(self, secret: bytes) -> None:
        self._secret, self._drawn = secret, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self._drawn += 1
        block = hashlib.shake_256(self._secret + self._drawn.to_bytes(8, "big")).digest(8 * count)
        return np.frombuffer(block, dtype="<u8").astype(np.uint64)

    def spawn(self, count: int) -> list[Source]:
        self._drawn += 1
        label = self._secret + b"spawn" + self._drawn.to_bytes(8, "big")
        return [Stream(hashlib.sha256(label + k.to_bytes(8, "big")).digest()) for k in range(count)]


@dataclass(frozen=True)
class Once:
    """A ledger that charges everything under the run's key, so that a second try of the run pays nothing."""

    ledger: Any
    key: str

    @property
    def adjacency(self) -> Adjacency:
        return self.ledger.adjacency

    @property
    def unit(self) -> str:
        return str(self.ledger.unit)

    def charge(self, event: Event, *, key: str, **more: object) -> Receipt:
        return self.ledger.charge(event, key=self.key, **more)


def _secret(path: Path, mark: Callable[[bytes], str]) -> tuple[bytes, str]:
    """The secret of a run and its mark, made where there is none; its owner alone may read it.

    A secret that was made for another run (other data, settings or code) is refused: its charge is not this run's.
    """
    if not path.exists():
        secret = os.urandom(BYTES)
        partial = path.with_name(path.name + ".partial")
        with unwritten(path, partial):
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secret + mark(secret).encode())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    fix = "Start the run again, with --again."
    found = bytes(content(path, BYTES + MARK, fix=fix))
    if len(found) != BYTES + MARK:
        raise BadInput(f"{path.name} is damaged.", fix=fix)
    secret, made = found[:BYTES], mark(found[:BYTES])
    if not hmac.compare_digest(found[BYTES:], made.encode()):
        raise BadInput("The data, the settings or tacit itself have changed since this run began.", fix=fix)
    return secret, made
