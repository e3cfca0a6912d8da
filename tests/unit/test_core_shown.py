"""Values in a terminal and in a notebook: short, escaped, and with nothing of the records."""

import numpy as np
import pytest

import report_samples
import tacit
from report_samples import private
from tacit.core import BudgetExceeded, Claim
from tacit.core.shown import aligned, at_least, at_most, proportion, remains, shortened, small


def shown():
    scores = tacit.Scores(np.linspace(0, 1, 5000), np.arange(5000) % 2, attack="<loss>", randomised=False)
    evidence = private().with_(subject="<script>", scores=(scores,))
    return {"Bound": evidence.upper, "Evidence": evidence, "Scores": scores}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "0.00001"),
        (1.2345e-5, "0.000012345"),
        (1e-6, "0.000001"),
        (3e-9, "3e-9"),
        (0.5, "0.5"),
        (1e-100, "1e-100"),
    ],
)
def test_a_small_number_is_written_in_one_way(value, text):
    assert small(value) == text
    bound = tacit.Bound(2.0, value, "upper", 1.0, "proof", "add-remove")
    claimed = tacit.Evidence("x", Claim(bound))
    assert f"at delta {text}" in repr(bound)
    assert f"at delta {text}" in repr(claimed)
    assert f"(delta {text})" in claimed.sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-16, "0"),  # what three charges of 1/3, as they are written, leave of 1
        (0.0, "0"),
        (0.49999999999999994, "0.4999"),  # a charge of 0.5 is refused
        (0.7, "0.7"),
        (float("inf"), "infinity"),
    ],
)
def test_what_remains_is_never_rounded_up_and_dust_is_nothing(value, text):
    assert remains(value) == text
    assert f"epsilon 0.5 and {remains(value, 6)} remains" in str(BudgetExceeded(0.5, value))
    assert "epsilon 0.100001 and 0.1 remains" in str(BudgetExceeded(0.10000004, 0.1))


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (2.3249, "2.32", "2.33"),
        (2.8376, "2.83", "2.84"),
        (3.9999999, "3.99", "4"),
        (0.9996, "0.999", "1"),
        (1.0000000000000162, "1", "1"),  # a pure release, as its accounting reads it
        (1234567.8, "1.23e6", "1.24e6"),
        (1.2345e-7, "1.23e-7", "1.24e-7"),
        (0.0, "0", "0"),
        (float("inf"), "infinity", "infinity"),
    ],
)
def test_a_bound_is_rounded_to_its_safe_side(value, low, high):
    assert (at_least(value), at_most(value)) == (low, high)
    upper, lower = (
        tacit.Bound(value, 1e-5, side, sure, "x", "add-remove") for side, sure in (("upper", 1.0), ("lower", 0.95))
    )
    assert (lower.shown(), upper.shown()) == (low, high)
    assert f"epsilon <= {at_most(value, 4)} at" in repr(upper)
    assert f"epsilon >= {at_least(value, 4)} at" in repr(lower)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.01, "1 in 100"),
        (1e-4, "1 in 10,000"),
        (0.15, "15 in 100"),
        (1 / 3, "1 in 3"),
        (0.7, "7 in 10"),
        (1.0, "1 in 1"),
    ],
)
def test_a_rate_is_so_many_in_so_many(rate, text):
    assert proportion(rate) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "Repeat(Poisson(rate=0.20022246941045607, Gaussian), steps=100)",
            "Repeat(Poisson(rate=0.2002, Gaussian), steps=100)",
        ),
        ("smoothness=0.31250000000000006, 1.5e-05, 0.25", "smoothness=0.3125, 1.5e-05, 0.25"),
        ("rate=1.2345678901e-07", "rate=1.235e-7"),
        ("version 1.2.3456789, #12345678.1234567a", "version 1.2.3456789, #12345678.1234567a"),
    ],
)
def test_long_fractions_in_a_text_are_cut(text, short):
    assert shortened(text) == short
    bound = tacit.Bound(2.0123456789, 1e-5, "lower", 0.95, "exact test", "add-remove", assumes=text)
    assert f"within {short})" in repr(bound)
    assert short in bound._repr_html_()
    assert "2.0123456789" not in bound._repr_html_()


@pytest.mark.parametrize("name", ["Bound", "Evidence", "Scores"])
def test_a_repr_is_one_line(name):
    found = repr(shown()[name])
    assert found.startswith(f"{name}(")
    assert len(found) < 300
    assert "\n" not in found
    assert "array" not in found


@pytest.mark.parametrize("value", [*shown().values(), tacit.plan(1000, epsilon=2, delta=1e-5)], ids=str)
def test_a_notebook_gets_a_small_table(value):
    found = value._repr_html_()
    assert found.startswith("<table>")
    assert "<script>" not in found
    assert "<loss>" not in found
    assert len(found) < 20_000


def test_the_repr_of_a_plan_names_every_field():
    """Noise keys are derived from it: two plans that differ must differ there."""
    one, two = tacit.Plan(1000, 0.1, 10, 1.0), tacit.Plan(1000, 0.1, 10, 1.0000001)
    assert repr(one) != repr(two)
    assert eval(repr(one).split("(")[0], {"Plan": tacit.Plan}) is tacit.Plan


def test_a_false_claim_is_said_first():
    """Before what an attack found, which may be little."""
    refuted = report_samples.refuted()
    assert refuted.attacks
    assert refuted.sentence.startswith("The claim epsilon <= ")
    assert "An attacker who" in refuted.sentence


def test_a_table_has_columns_of_one_width():
    rows = [("Basel", "1,204 +- 3"), ("Le Locle", "7 +- 3")]
    assert aligned(("town", "count"), rows, right=(1,)) == [
        "town           count",
        "Basel     1,204 +- 3",
        "Le Locle      7 +- 3",
    ]
    assert aligned((), rows) == ["Basel     1,204 +- 3", "Le Locle  7 +- 3"]
    assert aligned((), []) == []


def test_plans_and_trained_models_state_no_less_than_was_proven():
    """Both showed epsilon to the nearest digit."""
    from torch import nn

    from tacit.train.loop import Trained

    claim = Claim(tacit.Bound(0.123421, 1e-5, "upper", 1.0, "a method", "add-remove"), None)
    assert "epsilon 0.1235 at" in repr(Trained(nn.Linear(1, 1), private().with_(claim=claim), ()))
    plans = [tacit.Plan(1000, 0.1, steps, 2.0, delta=1e-5) for steps in range(10, 20)]
    exact = [plan.bound(1e-5).epsilon for plan in plans]
    assert any(float(f"{epsilon:.4g}") < epsilon for epsilon in exact)
    assert all(f">{at_most(epsilon, 4)}<" in plan._repr_html_() for plan, epsilon in zip(plans, exact, strict=True))
