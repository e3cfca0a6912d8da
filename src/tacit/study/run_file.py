"""`run.toml`: one file that names data, model, plan and what to do with them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.errors import BadInput
from ..core.files import shown
from ..core.toml_text import read_toml

Fits = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _string(value: object) -> bool:
    return isinstance(value, str)


def _list(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(fits, value))


TEXT, WHOLE, NUMBER = "a text", "a whole number", "a number"
TEXTS, NUMBERS, SWITCH = "a text or a list of texts", "a list of numbers", "a text, true or false"
LISTS = "a table of lists of texts"
KINDS: dict[str, Fits] = {
    TEXT: lambda value: _string(value) and value.isprintable() and value != "",
    WHOLE: lambda value: type(value) is int,
    NUMBER: _number,
    TEXTS: lambda value: KINDS[TEXT](value) or _list(KINDS[TEXT])(value),
    NUMBERS: _list(_number),
    SWITCH: lambda value: isinstance(value, str | bool),
    LISTS: lambda value: isinstance(value, dict) and all(map(_list(_string), value.values())),
}
DESCRIBED = ("title", "owner", "purpose", "data", "people", "tuning", "access", "earlier_releases")
"""What only the owner of a model can say of it."""
NETWORKS = ("linear", "mlp")
"""Models that [model] knows by name: those of `tacit.train.recipe.networks`."""
SECTIONS: dict[str, dict[str, str]] = {
    "data": {"source": TEXT, "label": TEXT, "groups": TEXT, "members": TEXT, "unit": TEXT, "categories": LISTS,
             "canaries": TEXT, "schema": TEXT},
    "model": {"kind": TEXT, "make": TEXT, "file": TEXT, "predict": TEXT, "fit": TEXT, "evidence": TEXT},
    "plan": {
        "epsilon": NUMBER, "delta": NUMBER, "epochs": NUMBER, "batch_size": WHOLE, "clip_norm": NUMBER,
        "adjacency": TEXT, "rate": NUMBER, "steps": WHOLE, "noise_multiplier": NUMBER, "public_size": WHOLE,
        "records_per_user": WHOLE,
        "sampling": TEXT, "clipping": TEXT, "bands": WHOLE,
    },
    "train": {
        "optimizer": TEXT, "lr": NUMBER, "momentum": NUMBER, "schedule": TEXT, "average": TEXT, "precision": TEXT,
        "compile": SWITCH,
    },
    "attack": {"attacks": TEXTS, "references": WHOLE, "fpr": NUMBERS, "output": TEXT},
    "audit": {
        "game": TEXT, "canary": TEXT, "runs": WHOLE, "seconds": NUMBER, "confidence": NUMBER, "start": TEXT,
        "isolation": TEXT,
    },
    "pate": {
        "teachers": WHOLE, "aggregator": TEXT, "threshold": NUMBER, "noise_select": NUMBER, "noise_answer": NUMBER,
        "reinforce": NUMBER, "queries": WHOLE, "answers": WHOLE, "student": TEXT, "classes": WHOLE, "choose": TEXT,
        "rounds": WHOLE, "steps": WHOLE, "batch_size": WHOLE, "release_epsilon": NUMBER, "propose": NUMBER,
    },
    "output": {"folder": TEXT, "seed": WHOLE},
    "ledger": {"url": TEXT, "purpose": TEXT, "analyst": TEXT},
    "describe": dict.fromkeys(DESCRIBED, TEXT),
}  # fmt: skip
"""Every section's keys, and what kind of value each takes."""
TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".tsv", ".parquet", ".xlsx", ".npz")
OTHER_NAMES = {
    "learning_rate": "lr", "max_grad_norm": "clip_norm", "l2_norm_clip": "clip_norm", "sigma": "noise_multiplier",
    "sample_rate": "rate", "sampling_prob": "rate", "iterations": "steps", "neighboring_relation": "adjacency",
    "alpha": "confidence", "significance": "confidence", "eps": "epsilon", "target_epsilon": "epsilon",
    "target_delta": "delta", "num_epochs": "epochs", "batch": "batch_size", "dataset": "source", "path": "source",
    "target": "label", "user": "unit", "users": "unit", "type": "kind",
}  # fmt: skip
"""What other libraries call these keys."""


@dataclass(frozen=True)
class RunFile:
    """The sections of a run file, each a plain table with known keys."""

    path: Path
    sections: dict[str, dict[str, object]] = field(default_factory=dict)
    name: str = ""

    @classmethod
    def read(cls, path: str | Path) -> RunFile:
        path = Path(path)
        if path.name.lower().endswith(TABLES):
            raise BadInput(
                f"{shown(path)} is a table, not a run file.", fix=f"tacit init {shown(path)} --label COLUMN writes one."
            )
        if path.suffix.lower() == ".json":
            raise BadInput(f"{shown(path)} is no run file.", fix="tacit report and tacit verify read evidence.")
        found = read_toml(path, fix="Give the path of a run.toml.")
        for section, table in found.items():
            _known(section, SECTIONS, "section")
            if not isinstance(table, dict):
                raise BadInput(f"{path.name}: {section} must be a section, [{section}].")
            for key, value in table.items():
                _known(key, SECTIONS[section], f"key of [{section}]", _home(key))
                if not KINDS[SECTIONS[section][key]](value):
                    raise BadInput(f"{path.name}: {key} in [{section}] must be {SECTIONS[section][key]}.")
        return cls(path, found, path.stem.removesuffix(".run"))

    def get(self, section: str) -> dict[str, Any]:
        """A section's table; empty when it is absent."""
        return dict(self.sections.get(section, {}))

    def need(self, section: str, key: str) -> Any:
        """A value of the run file that must be there; its absence is one sentence."""
        value = self.get(section).get(key)
        if value is None:
            raise BadInput(f"{self.path.name} needs `{key}` in [{section}].")
        return value

    def with_described(self, texts: Mapping[str, str]) -> RunFile:
        """A copy of the run file with more entries in its section [describe]."""
        return replace(self, sections={**self.sections, "describe": {**self.get("describe"), **texts}})

    def settings(self, *sections: str) -> dict[str, Any]:
        """The values of some sections by dotted names, as a run that does not end keeps them."""
        return {f"{section}.{key}": value for section in sections for key, value in self.get(section).items()}

    @property
    def described(self) -> dict[str, str]:
        """The entries of the section [describe]."""
        return {key.replace("_", " "): str(value) for key, value in self.get("describe").items()}

    def one_of(self, section: str, keys: tuple[str, ...]) -> str:
        """Which of several keys is given; exactly one must be."""
        given = [key for key in keys if key in self.get(section)]
        if len(given) != 1:
            raise BadInput(
                f"{self.path.name} needs exactly one of {', '.join(keys)} in [{section}].",
                fix='For example: [model] kind = "linear".' if "kind" in keys else "",
            )
        if given == ["kind"]:
            _known(str(self.get(section)["kind"]), NETWORKS, f"kind in [{section}]")
        return given[0]


def described_by(options: Iterable[str]) -> dict[str, str]:
    """Entries of [describe] from options KEY=TEXT."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        key = key.strip().replace(" ", "_").replace("-", "_")
        if not equals:
            raise BadInput("--describe takes KEY=TEXT.", fix='For example --describe owner="Clinic of Basel".')
        _known(key, dict.fromkeys(DESCRIBED), "key of --describe")
        if not KINDS[TEXT](value.strip()):
            raise BadInput(f"--describe {key} must be a text of printable characters.")
        found[key] = value.strip()
    return found


def _home(key: str) -> str:
    """Where a key belongs that stands in the wrong section."""
    homes = [f"[{section}]" for section, keys in SECTIONS.items() if key in keys]
    return f"It goes into {' or '.join(homes)}." if homes else ""


def _known(name: str, names: Any, what: str, fix: str = "") -> None:
    if name not in names:
        name = shown(name)
        near = OTHER_NAMES.get(name, "")
        near = near if near in names else difflib.get_close_matches(name, list(names), n=1, cutoff=0.0)[0]
        raise BadInput(f"{name!r} is not a {what}.", fix=fix or f"Did you mean {near!r}? Known: {', '.join(names)}.")
