"""A convolution's weight by pixels and taps, as a GPU does it, against the gradient written out per example."""

import pytest
import torch
import torch.nn.functional as F

from tacit.train.clip import image, terms
from tacit.train.clip.image import Image

CASES = [
    # channels in and out, side, kernel, stride, padding, dilation
    (8, 8, 6, (3, 3), 1, 1, 1),
    (8, 16, 5, (3, 3), 1, 0, 1),
    (16, 8, 7, (2, 3), 1, 1, 1),
    (8, 8, 7, (3, 3), 1, 2, 2),
    (8, 8, 8, (3, 3), 2, 1, 1),
    (8, 16, 9, (3, 2), 3, 1, 1),
]


def exact(values: torch.Tensor, errors: torch.Tensor, shape: torch.Size, stride: int, dilation: int) -> torch.Tensor:
    """One example at a time, in float64."""
    found = []
    for x, g in zip(values.double(), errors.double(), strict=True):
        weight = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        F.conv2d(x[None], weight, stride=stride, dilation=dilation).backward(g[None])
        found.append(weight.grad)
    return torch.stack(found)


@pytest.mark.parametrize("by_inner", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_both_forms_give_the_written_out_norms_and_sums(case, by_inner, monkeypatch) -> None:
    torch.manual_seed(0)
    fan_in, fan_out, side, kernel, stride, padding, dilation = case
    values = F.pad(torch.randn(3, fan_in, side, side), [padding] * 4).bfloat16()
    shape = torch.Size((fan_out, fan_in, *kernel))
    errors = torch.randn_like(F.conv2d(values.float(), torch.zeros(shape), stride=stride, dilation=dilation)).bfloat16()
    monkeypatch.setattr(Image, "_by_inner", lambda self: by_inner)
    monkeypatch.setattr(terms, "narrow", lambda values: values.dtype == torch.bfloat16)
    term = Image(values, errors, shape, (stride, stride), (dilation, dilation))
    right, memo = exact(values, errors, shape, stride, dilation), {}
    norm2 = right.flatten(1).square().sum(1)
    torch.testing.assert_close(term.norm2(memo).double(), norm2, rtol=1e-5, atol=0)
    torch.testing.assert_close(term.dense().double(), right, rtol=1e-5, atol=1e-4)
    weight = torch.rand(3)
    torch.testing.assert_close(term.weighted(weight).double(), torch.einsum("b,b...->...", weight.double(), right),
                               rtol=1e-4, atol=1e-4)  # fmt: skip
    assert (term.slack2(memo) >= 0.99 * image.TF32**2 * norm2).all() if by_inner else term.slack2(memo) == 0.0
    kept = torch.tensor([True, False, True])
    assert torch.equal(term.only(kept).norm2({}) > 0, kept)


def test_the_room_for_rounding_holds_when_errors_conspire() -> None:
    """Errors of the greatest size, all of one sign: the sum of what they add stays within the bound."""
    torch.manual_seed(0)
    values, errors = torch.rand(2, 8, 6, 6).bfloat16(), torch.rand(2, 8, 4, 4).bfloat16()
    term, memo = Image(values, errors, torch.Size((8, 8, 3, 3)), (1, 1), (1, 1)), {}
    moved = exact(values, errors.double() * image.TF32, term.shape, 1, 1).flatten(1).norm(dim=1)
    term._by_inner = lambda: True
    assert (moved <= term.slack2(memo).sqrt() * (1 + 1e-6)).all()
    assert (moved >= 0.8 * term.slack2(memo).sqrt()).all()
