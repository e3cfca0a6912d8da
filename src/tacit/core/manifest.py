"""What a run wrote, by hashes: files that were exchanged afterwards are known not to belong together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from .errors import BadInput
from .files import content, opened, shown

MANIFEST = "manifest.json"
WEIGHTS, FACTS = "model.safetensors", "schema.toml"
WEIGHTS_FIELD = "weights_sha256"
SCHEMA = "tacit.manifest/1"
MOST = 2**20
LARGEST = 2**40
CHUNK = 2**20


def sha256(path: Path) -> str:
    """Of a regular file."""
    code = hashlib.sha256()
    with opened(path, LARGEST) as file:
        while part := file.read(CHUNK):
            code.update(part)
    return code.hexdigest()


def manifest(folder: Path, verb: str) -> str:
    """The text of the manifest of all files in a folder."""
    files = {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in sorted(folder.iterdir())}
    return json.dumps({"schema": SCHEMA, "verb": verb, "files": files}, indent=1) + "\n"


def check_beside(evidence: Path, provenance: Mapping[str, object]) -> None:
    """Refuse evidence that lies beside weights, or under a name, that it is known not to belong to.

    Known are: what the evidence says itself about the weights it was written with, and what a manifest beside it says.
    Evidence that lies by itself says nothing about other files, and is taken.
    """
    weights = evidence.with_name(WEIGHTS)
    told = provenance.get(WEIGHTS_FIELD)
    if isinstance(told, str) and weights.is_file() and sha256(weights) != told:
        raise _foreign(weights)
    listed = _listed(evidence.with_name(MANIFEST))
    for name in [evidence.name, FACTS, *(name for name in listed if name.endswith(Path(WEIGHTS).suffix))]:
        path = evidence.with_name(name)
        if name in listed and path.is_file() and listed[name] != sha256(path):
            raise _foreign(path)


def _listed(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        data = json.loads(content(path, MOST))
        if data["schema"] != SCHEMA:
            return {}
        return {Path(name).name: str(entry["sha256"]) for name, entry in data["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{shown(path)} is damaged.", fix="Without it, nothing says which files belong together."
        ) from None


def _foreign(path: Path) -> BadInput:
    return BadInput(
        f"{shown(path)} is not the one that this evidence was written with: a file of the run was exchanged.",
        fix="Give model and evidence of one run.",
    )
