"""Make the pages of the gallery: one report for every verdict, from real runs, and a picture of the top of each.

    python benchmarks/gallery.py        # writes docs/images/gallery/*.png; needs chromium

Runs are seeded, so the pictures change only when the page does.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tacit
from tacit.core import Evidence

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "images" / "gallery"
WIDE, HIGH = 1000, 900
PAIR = [1] * 10, [1] * 11
OWNER = {"owner": "the clinic of the example", "purpose": "a yearly report", "people": "made-up patients"}
TITLES = {
    "refuted": "Number of patients, first version",
    "consistent": "Number of patients, corrected",
    "uninformative": "Number of patients, 100 calls",
    "untested": "Handwritten digits, linear",
    "no-claim": "Handwritten digits, random forest",
}


def count(scale: float) -> Callable[[list[int], np.random.Generator], int]:
    """A count with Laplace noise of a scale, rounded."""

    def noisy_count(data: list[int], rng: np.random.Generator) -> int:
        return round(len(data) + rng.laplace(scale=scale))

    return noisy_count


def refuted() -> Evidence:
    return tacit.audit_mechanism(count(1 / 3), PAIR, claim=(1.0, 0.0), runs=4000, rng=0)


def consistent() -> Evidence:
    return tacit.audit_mechanism(count(1.0), PAIR, claim=(1.0, 0.0), runs=4000, rng=0)


def uninformative() -> Evidence:
    return tacit.audit_mechanism(count(1.0), PAIR, claim=(4.0, 0.0), runs=100, rng=0)


def untested() -> Evidence:
    import torch

    torch.manual_seed(0)
    x, y = _digits()
    plan = tacit.plan(len(x), epsilon=4.0, delta=1e-5, epochs=5, batch_size=200)
    return tacit.fit(torch.nn.Linear(64, 10), (x, y), plan, delta=1e-5, rng=0).evidence


def no_claim() -> Evidence:
    from sklearn.ensemble import RandomForestClassifier

    x, y = _digits()
    forest = RandomForestClassifier(20, random_state=0).fit(x[::2], y[::2])
    return tacit.attack(forest, (x[::2], y[::2]), (x[1::2], y[1::2]), references=8, rng=0)


def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y


PAGES = {"refuted": refuted, "consistent": consistent, "uninformative": uninformative, "untested": untested,
         "no-claim": no_claim}  # fmt: skip


def picture(page: Path, path: Path) -> None:
    """The top of a page as a reader first sees it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("The gallery needs chromium.")
    command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDE},{HIGH}"]
    subprocess.run([*command, f"--screenshot={path}", page.as_uri()], check=True, capture_output=True)


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for name, make in PAGES.items():
            evidence = make()
            assert evidence.verdict.value == name.replace("-", " "), (name, evidence.verdict)
            page = Path(folder) / f"{name}.html"
            tacit.report(evidence.with_(described={"title": TITLES[name], **OWNER}), page)
            picture(page, PICTURES / f"{name}.png")
            print(name, (PICTURES / f"{name}.png").stat().st_size)


if __name__ == "__main__":
    main()
