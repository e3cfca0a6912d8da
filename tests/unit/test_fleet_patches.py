"""Patches of images in a fleet: torch's own unfolding and its gradient, for all sizes of windows and steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.fleet.patches import patches_of

SIDES = st.tuples(st.integers(1, 4), st.integers(1, 4))


def unfolded(hidden, kernel, step, padding):
    """By torch, one image at a time: (K, channels, B, height, width) -> (K, patch, B, positions)."""
    images = hidden.transpose(1, 2).flatten(0, 1)
    found = torch.nn.functional.unfold(images, kernel, padding=padding, stride=step)
    return found.unflatten(0, (hidden.shape[0], hidden.shape[2])).transpose(1, 2)


@given(kernel=SIDES, step=SIDES, padding=st.tuples(st.integers(0, 2), st.integers(0, 2)), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_patches_and_gradients_are_torchs(kernel, step, padding, seed):
    chance = torch.Generator().manual_seed(seed)
    hidden = torch.randn(2, 3, 2, 5, 6, generator=chance, dtype=torch.float64, requires_grad=True)
    ours, theirs = patches_of(hidden, kernel, step, padding), unfolded(hidden, kernel, step, padding)
    assert torch.equal(ours, theirs)
    error = torch.randn(ours.shape, generator=chance, dtype=torch.float64)
    mine, right = (torch.autograd.grad(one, hidden, error)[0] for one in (ours, theirs))
    torch.testing.assert_close(mine, right, rtol=1e-12, atol=1e-12)


def test_a_batch_that_models_share_has_no_axis_of_models():
    hidden = torch.randn(3, 2, 5, 6)
    assert torch.equal(patches_of(hidden, (2, 3), (1, 2), (1, 0)), unfolded(hidden[None], (2, 3), (1, 2), (1, 0))[0])


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_one_odd_gradient_reaches_the_pixels_of_its_patch_alone(odd):
    hidden = torch.zeros(1, 1, 2, 5, 5, requires_grad=True)
    found = patches_of(hidden, (3, 3), (1, 1), (0, 0))
    error = torch.zeros_like(found)
    error[0, :, 1, 0] = odd  # the first patch of the second image
    (gradient,) = torch.autograd.grad(found, hidden, error)
    assert gradient[0, 0, 0].isfinite().all()
    assert (~gradient[0, 0, 1].isfinite()).nonzero().tolist() == [[i, j] for i in range(3) for j in range(3)]
