"""Events survive a trip through dp-accounting's vocabulary."""

import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from tacit.core.errors import BadInput  # noqa: E402
from tacit.core.events import (  # noqa: E402
    ZCDP,
    Compose,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    NoOp,
    Poisson,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
)
from tacit.loss import privacy_loss  # noqa: E402
from tacit.loss.exchange import from_dp_accounting, to_dp_accounting  # noqa: E402

EVENTS = [
    Gaussian(1.1),
    Laplace(2.0),
    ZCDP(0.1),
    NoOp(),
    NonPrivate(),
    Repeat(Poisson(0.01, Gaussian(1.1)), 9),
    Compose((Gaussian(1.0), FixedSize(10, 100, Gaussian(2.0)))),
    DiscreteLaplace(2.0, 4),
    Repeat(TruncatedPoisson(0.1, 40, Gaussian(1.0), 300), 20),
    RepeatAndSelect(Gaussian(5.0), 5.0),
    RepeatAndSelect(Gaussian(5.0), 5.0, None),
]


@pytest.mark.parametrize("event", EVENTS)
def test_round_trip(event):
    assert from_dp_accounting(to_dp_accounting(event)) == event


def test_randomized_response_keeps_its_epsilon():
    event = from_dp_accounting(dp_accounting.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=4))
    found = privacy_loss(event, "replace").epsilon(0.0).upper
    assert found == pytest.approx(1.6094379, abs=1e-6)


def test_what_has_no_counterpart_raises():
    with pytest.raises(BadInput):
        to_dp_accounting(Shuffled(10, Gaussian(1.0)))
    with pytest.raises(BadInput):
        from_dp_accounting(dp_accounting.UnsupportedDpEvent())
