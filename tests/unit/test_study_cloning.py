"""Clones of an estimator, as reference models and runs of an audit: they are looked at and pay nothing."""

import numpy as np
import pytest

import tacit
from tacit.study.cloning import refit

pytest.importorskip("sklearn")


@pytest.mark.parametrize("piped", [False, True])
def test_reference_models_and_runs_of_an_audit_use_up_no_budget(tmp_path, piped):
    """Each charged the whole epsilon: a bracket ended when the budget of the data was used up."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    from tacit.erm import PrivateLogisticRegression

    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=1.5, delta=1e-6, unit="record")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) / 4
    y = (x[:, 0] > 0).astype(int)
    private = PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], ledger=ledger, random_state=0)
    target = make_pipeline(FunctionTransformer(), private) if piped else private
    tacit.bracket(target, (x, y), references=2, runs=16, rng=1)
    assert not list(ledger.entries())
    assert private.ledger is ledger
    target.fit(x, y)
    assert len(list(ledger.entries())) == 1
    tacit.attack(target, (x[:100], y[:100]), (x[100:], y[100:]), references=2, rng=1)
    assert len(list(ledger.entries())) == 1


def test_a_clone_keeps_everything_but_its_ledger_and_its_seed(tmp_path):
    from tacit.erm import PrivateLogisticRegression

    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=1.0, delta=1e-6, unit="record")
    private = PrivateLogisticRegression(epsilon=0.3, classes=[0, 1], ledger=ledger, norm_bound=2.0)
    x = np.linspace(-1, 1, 60).reshape(20, 3)
    made = refit(private, None)(x, np.arange(20) % 2, np.random.default_rng(0))
    same = {name: value for name, value in made.get_params().items() if name not in ("ledger", "random_state")}
    assert same == {name: private.get_params()[name] for name in same}
    assert made.ledger is None


class Bare:
    """What scikit-learn's clone takes, without parameters and without `set_params`."""

    def get_params(self, deep=True):
        return {}

    def fit(self, x, y):
        self.seen = len(y)
        return self


def test_an_estimator_with_nothing_to_set_is_not_asked_to_set_it():
    assert refit(Bare(), None)(np.zeros((3, 1)), np.arange(3), np.random.default_rng(0)).seen == 3
