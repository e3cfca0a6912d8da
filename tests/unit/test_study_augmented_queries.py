"""Queries about augmented copies: the mean over what training saw, for shares and logits alike."""

import numpy as np
import pytest

from tacit import BadInput, attack
from tacit.study.augmented_queries import augmented

X = np.random.default_rng(0).normal(size=(5, 2))


def logits(x):
    return np.stack((np.zeros(len(x)), x.sum(axis=1)), axis=1)


def shares(x):
    z = np.exp(logits(x))
    return z / z.sum(axis=1, keepdims=True)


def moved(x, k):
    return x + 0.5 * k


def test_margins_are_averaged_over_the_copies():
    for model in (logits, shares):
        told = augmented(model, moved, copies=3)(X)
        assert np.allclose(told.sum(axis=1), 1.0)
        assert np.allclose(np.log(told[:, 1] / told[:, 0]), X.sum(axis=1) + 1.0)


def test_one_copy_is_the_record_itself():
    assert np.allclose(augmented(shares, moved, copies=1)(X), shares(X))


def test_labels_are_refused():
    with pytest.raises(BadInput, match="shares or logits"):
        augmented(lambda x: np.zeros(len(x), dtype=int), moved, copies=2)(X)


def test_a_bare_function_is_refused_in_words():
    """It was an `AttributeError` of the function."""
    with pytest.raises(BadInput, match="must be Copies"):
        attack(shares, (X, [0, 1, 0, 1, 0]), (X + 9, [0, 1, 0, 1, 0]), augment=moved, rng=1)
