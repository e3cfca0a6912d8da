"""Where a result comes from: versions, randomness, time. Never a seed, never data."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata

from .. import __version__
from ..core.evidence import Scalar
from ..core.randomness import Source

PACKAGES = ("numpy", "scipy", "torch", "scikit-learn")


def provenance(randomness: Source, **more: Scalar) -> dict[str, Scalar]:
    """What a reader needs to place and repeat the experiment."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "tacit": __version__,
        "python": platform.python_version(),
        **versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "randomness": randomness.name,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        **more,
    }
