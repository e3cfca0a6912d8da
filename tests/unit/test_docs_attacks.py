"""The page of attacks names every attack, and its example shows what it says."""

from pathlib import Path

import pytest

from tacit.attacks import ATTACKS

pytest.importorskip("torch")
pytest.importorskip("sklearn")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_on_the_page(name):
    assert f"`{name}`" in (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_finds_members_and_the_defence_hides_some():
    from examples.hidden_members import main

    found = main(epochs=60, records=300)
    assert all(area > 0.6 for area in found["Plain"].values())
    assert max(found["AdversarialRegularisation"].values()) < max(found["Plain"].values())
