"""Whole records from small published tables."""

from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism
from tacit.core import BadInput, source
from tacit.disclosure import Bar, Published

from .shown import EPSILON, Shown, adult


def records(folder: Path, blocks: int = 40, size: int = 6) -> Shown:
    """Blocks of six people, all their tables of two columns: how many whole records follow?"""
    table = adult(folder)
    domain = {"sex": ["Female", "Male"], "income": ["<=50K", ">50K"], "age": ["young", "old"]}
    held = {"sex": table.sex, "income": table.income, "age": np.where(table.age < 40, "young", "old")}
    pairs, numbers = [("sex", "income"), ("sex", "age"), ("income", "age")], np.random.default_rng(0)
    shares: dict[str, list[float]] = {"plain": [], "private": []}
    for block in range(blocks):
        rows = numbers.choice(len(table), size, replace=False)
        people = {name: np.asarray(values)[rows] for name, values in held.items()}
        for kind, found in shares.items():
            tables = [_published(domain, people, pair, 0 if kind == "plain" else 3, block) for pair in pairs]
            try:
                found.append(disclosure.records_from_tables(domain, tables).determined)
            except BadInput:  # noisy tables contradict each other
                found.append(0.0)
    plain, private = (float(np.mean(found)) for found in shares.values())
    told = f"In blocks of {size} people three tables of two columns determine {plain:.0%} of whole records"
    bars = Bar("exact tables", plain), Bar("private tables", private, "private")
    return Shown("Records that small tables determine", f"{told}; private ones {private:.0%}.", bars)


def _published(domain, people, pair, tables, seed):
    """A table of two columns; `tables` > 0 shares epsilon 1 between so many of them."""
    kinds = [(a, b) for a in domain[pair[0]] for b in domain[pair[1]]]
    counts = np.array([np.sum((people[pair[0]] == a) & (people[pair[1]] == b)) for a, b in kinds])
    if tables:
        rng = source(1000 * seed + len("".join(pair)))
        counts = np.maximum(mechanism.laplace(counts, sensitivity=1, epsilon=EPSILON / tables, rng=rng).value, 0)
    return Published(pair, {kind: int(count) for kind, count in zip(kinds, counts, strict=True)})
