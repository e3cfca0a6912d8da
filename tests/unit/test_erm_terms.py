"""What a fit claims and charges: terms are those of the fit, whatever is set later; a private number of records."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("sklearn")
import tacit
from tacit import BadInput, PrivacyWarning
from tacit.core import Adjacency
from tacit.core.events import Gaussian
from tacit.erm import (
    PrivateAdditiveTrees,
    PrivateERM,
    PrivateGaussianNB,
    PrivateGridSearchCV,
    PrivateKMeans,
    PrivateLinearRegression,
    PrivateLocalRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateStandardScaler,
    bayes,
    bins,
    clusters,
    components,
    descent,
    methods,
    regression,
    scaling,
)
from tacit.erm import problem as problems
from tacit.erm.budget import Budget
from tacit.erm.linear import EXCESS, EXPECTED
from tacit.erm.losses import Logistic, SmoothHinge
from tacit.erm.methods import METHODS
from tacit.erm.noise import gaussian
from tacit.erm.problem import Problem
from tacit.erm.rows import bounded, products_by_row
from tacit.erm.shape import Design, Shape
from tacit.erm.tabulated import KNOTS, Tabulated
from tacit.loss.conditions import EVERYWHERE, EXACT, FORMER, SMOOTH

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) / 3
Y = (X[:, 0] > 0).astype(int)
ROOMS = (bayes, bins, clusters, components, descent, methods, regression, scaling)


class Till:
    def __init__(self, room):
        self.room, self.asked = room, []

    def charge(self, event, *, key, purpose="", analyst=""):
        if len(self.asked) >= self.room:
            raise tacit.BudgetExceeded(asked=1.0, remaining=0.0)
        self.asked.append(event)


def test_settings_that_are_changed_after_the_fit_change_no_evidence():
    """Once, a seeded fit read as cryptographic, and classes read off the data as given, after `set_params`."""
    with pytest.warns(PrivacyWarning, match="classes"):
        model = PrivateLogisticRegression(1.0, 1e-6, random_state=0).fit(X, Y)
    before = model.evidence()
    model.set_params(random_state=None, classes=[0, 1], ledger=Till(1))
    assert model.evidence().not_covered == before.not_covered
    assert model.evidence().provenance == before.provenance
    said = " ".join(before.not_covered)
    assert "seed" in said
    assert "read off the data" in said
    assert "no ledger" in said


def test_what_people_send_is_charged_before_it_is_drawn(monkeypatch):
    """Once, `randomized` drew noise and charged nobody."""
    till = Till(1)
    made = PrivateLocalRegression(target_range=(0, 1), ledger=till, random_state=0)
    made.randomized(X, Y)
    assert len(till.asked) == 1
    monkeypatch.setattr("tacit.erm.local.gaussian", None)
    with pytest.raises(tacit.BudgetExceeded):
        made.randomized(X, Y)


def test_evidence_says_who_held_the_records_before_they_were_randomised():
    made = PrivateLocalRegression(target_range=(0, 1), random_state=0)
    assert "held all records" in made.fit(X, Y).evidence().threat["trust"]
    assert made.fit_sent(made.randomized(X, Y)).evidence().threat["trust"].startswith("nobody")


class Recalled(Logistic):
    """Passes every check, and then remembers what it was asked, mixes long batches and grows steeper at each call."""

    asked = ()

    def slope(self, margin):
        Recalled.asked = (*Recalled.asked, margin.copy())
        times = 1.0 if len(Recalled.asked) <= 2 else 50.0
        return times * Logistic().slope(margin - (np.mean(margin) if len(margin) == len(X) else 0.0))


def test_a_declared_loss_is_asked_about_public_margins_alone_and_once():
    """Once, a loss that mixed records in batches of other sizes than the check's, or kept a state, was minimised."""
    Recalled.asked = ()
    found = PrivateERM(Recalled(), 1.0, 1e-6, classes=[0, 1], random_state=0).fit(X, Y)
    assert [len(each) for each in Recalled.asked] == [len(KNOTS), len(KNOTS[::-7])]
    assert all(np.isin(each, KNOTS).all() for each in Recalled.asked)
    plain = PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], random_state=0).fit(X, Y)
    assert found.event_ == plain.event_
    assert np.allclose(found.coef_, plain.coef_, rtol=1e-4)
    assert not any("declared" in line or "loss" in line for line in found.evidence().not_covered)


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(0.3), SmoothHinge(0.01), Logistic(2.0, 3.0)])
def test_a_table_keeps_its_constants_at_every_margin(loss):
    table, rng = Tabulated.of(loss), np.random.default_rng(0)
    assert (table.lipschitz, table.smoothness) == (loss.lipschitz, loss.smoothness)
    margins = np.sort(
        np.concatenate((rng.normal(size=4000), 10 ** rng.uniform(-3, 6, 4000), -(10 ** rng.uniform(-3, 6, 4000))))
    )
    rise, step = np.diff(table.slope(margins)), np.diff(margins)
    assert np.all(rise >= -1e-15)
    assert np.all(rise <= loss.smoothness * step * (1 + 1e-9) + 1e-15)
    assert np.all(np.abs(table.slope(margins)) <= loss.lipschitz * (1 + 1e-15))
    assert np.all(table.value(margins) >= 0)
    near = margins[np.abs(margins) < 16]
    assert np.allclose(table.slope(near), loss.slope(near), rtol=0, atol=loss.smoothness / 1024)
    run, off = np.diff(table.value(near)), 1e-9
    assert np.all(run >= table.slope(near)[:-1] * np.diff(near) - off)
    assert np.all(run <= table.slope(near)[1:] * np.diff(near) + off)


def _mirrored(loss):
    """l(-m)."""
    parts = {
        "value": lambda self, m: loss.value(-m),
        "slope": lambda self, m: -loss.slope(-m),
        "curvature": lambda self, m: loss.curvature(-m),
    }
    return type("Mirrored", (Logistic,), parts)(loss.lipschitz, loss.smoothness)


def test_a_table_ends_level():
    """Else a loss would fall below 0 far away, and the bound on the length of the minimiser would not hold."""
    falling = type("Falling", (Logistic,), {
        "value": lambda self, m: (np.hypot(1, m) - m) / 2,
        "slope": lambda self, m: (m / np.hypot(1, m) - 1) / 2,
        "curvature": lambda self, m: 1 / (2 * np.hypot(1, m) ** 3),
    })(1.0, 0.5)  # fmt: skip
    for loss in (falling, _mirrored(falling)):
        table = Tabulated.of(loss)
        assert np.array_equal(
            table.slope(np.array([1e9, -1e9]) if loss is falling else np.array([-1e9, 1e9])) == 0.0, [True, False]
        )
        assert float(table.value(np.linspace(-1e5, 1e5, 101)).min()) >= 0.0
        assert table.smoothness == 0.5


def test_a_negative_loss_is_refused():
    below = type("Below", (Logistic,), {"value": lambda self, m: Logistic().value(m) - 5.0})()
    with pytest.raises(BadInput, match="negative"):
        PrivateERM(below, classes=[0, 1]).fit(X, Y)


def test_a_loss_that_mixes_records_is_refused():
    """Centred slopes: one record's margin would move the slope of every other."""
    mixed = type("Mixed", (Logistic,), {"slope": lambda self, m: Logistic().slope(m - 1e-3 * np.mean(m))})()
    with pytest.raises(BadInput, match="depends on the other margins"):
        PrivateERM(mixed, classes=[0, 1]).fit(X, Y)


def test_a_fitted_model_leaves_without_the_seed_of_its_noise():
    made = PrivateLogisticRegression(classes=[0, 1], random_state=7)
    assert pickle.loads(pickle.dumps(made)).random_state == 7  # for another process to fit
    copy = pickle.loads(pickle.dumps(made.fit(X, Y)))
    assert (copy.random_state, made.random_state) == (None, 7)
    assert np.array_equal(copy.coef_, made.coef_)
    assert copy.evidence().not_covered == made.evidence().not_covered


@pytest.mark.parametrize("bounds", [(1e6, 1e6 + 1e-7), (-1e-7 - 1e6, -1e6), (1990.0, 1990.001)])
def test_a_narrow_range_far_from_zero_is_cut_evenly(bounds):
    low, high = bounds
    found = bins.cells_of_array(np.linspace(low, high, 9)[:, None], (np.array([low]), np.array([high])))
    assert found.places[[0, -1], 0].tolist() == [0, bins.CELLS - 1]
    assert np.abs(np.diff(found.places[:, 0]) - bins.CELLS / 8).max() <= 4
    values = np.array([[-1.0, 0.9, 0.0], [1.0, 0.9, 0.0], [0.0, 0.0, 1.0]], dtype=np.float32)  # the last is missing
    table = bins.cells_of_table(values, tacit.Schema((tacit.Column("year", range=(low, high)),)))
    assert table.places[:, 0].tolist() == [0, bins.CELLS - 1, bins.CELLS]


def test_a_large_delta_is_said():
    with pytest.warns(PrivacyWarning, match="whole record"):
        PrivateGaussianNB(1.0, 0.01, classes=[0, 1], random_state=0).fit(X, Y)


SIZED = {
    "scaler": lambda **s: PrivateStandardScaler(1.0, bounds=(-5, 5), **s),
    "components": lambda **s: PrivatePCA(2, 1.0, **s),
    "k-means": lambda **s: PrivateKMeans(3, 1.0, max_iter=2, **s),
    "naive Bayes": lambda **s: PrivateGaussianNB(1.0, classes=[0, 1], **s),
    "regression": lambda **s: PrivateLinearRegression(1.0, target_range=(-1, 1), **s),
    "output": lambda **s: PrivateLogisticRegression(1.0, method="output", classes=[0, 1], **s),
    "objective": lambda **s: PrivateLogisticRegression(1.0, method="objective", classes=[0, 1], **s),
    "gradient": lambda **s: PrivateLogisticRegression(1.0, method="gradient", classes=[0, 1], **s),
    "smooth": lambda **s: PrivateLogisticRegression(1.0, method="smooth", classes=[0, 1], **s),
    "softmax": lambda **s: PrivateLogisticRegression(1.0, classes=[0, 1, 2], **s),
    "trees": lambda **s: PrivateAdditiveTrees(60.0, bounds=(-5, 5), bins=2, method="gradient", classes=[0, 1], **s),
}


def released(monkeypatch, model, size):
    """The scales of all noise of a fit on so many records, and all numbers that stand in the fitted model."""
    seen = []

    def taped(value, contribution, noise_multiplier, rng):
        seen.append((contribution, noise_multiplier, np.shape(value)))
        return gaussian(np.zeros(np.shape(value)), contribution, noise_multiplier, rng)

    for room in ROOMS:
        monkeypatch.setattr(room, "gaussian", taped)
    model.fit(X[:size], Y[:size])
    return seen, (model.event_, model.bound_, {k: np.shape(v) for k, v in vars(model).items() if k.endswith("_")})


@pytest.mark.parametrize("name", SIZED)
def test_a_private_number_of_records_is_seen_nowhere(monkeypatch, name):
    """Noise, claim and whatever is computed from them follow from `public_size`; without it, from the number itself."""
    both = [released(monkeypatch, SIZED[name](public_size=120, random_state=0), size) for size in (100, 99, 0)]
    assert both[0] == both[1] == both[2]
    assert both[0][1][1].assumptions[-1] == "there are at most 240 records"
    own = [released(monkeypatch, SIZED[name](random_state=0), size) for size in (100, 99)]
    assert own[0] != own[1]


FRAMED = {
    "naive Bayes": lambda **s: PrivateGaussianNB(1.0, 1e-3, **s),
    "output": lambda **s: PrivateLogisticRegression(1.0, 1e-3, method="output", **s),
    "trees": lambda **s: PrivateAdditiveTrees(1.0, 1e-3, **s),
    "k-means": lambda **s: PrivateKMeans(3, 1.0, 1e-3, **s),
    "regression": lambda **s: PrivateLinearRegression(1.0, 1e-3, target_range=(0, 1), **s),
}


@pytest.mark.parametrize("name", FRAMED)
def test_a_table_without_rows_is_one_like_any_other_where_their_number_is_private(name):
    """An array without rows was; a frame raised, and so told one record from none."""
    columns = (tacit.Column("a", range=(0, 1)), tacit.Column("b", kind="category", words=("no", "yes")))
    frame, settings = pandas.DataFrame({"a": [], "b": []}), {"schema": tacit.Schema(columns, label="b")}
    with pytest.raises(BadInput, match="no rows"):
        FRAMED[name](**settings).fit(frame, frame["a"])
    model = FRAMED[name](**settings, public_size=10)
    assert model.fit(frame, frame["a"]).bound_.epsilon <= 1.0


def test_a_search_takes_a_table_without_rows_where_their_number_is_private():
    columns = (tacit.Column("a", range=(0, 1)), tacit.Column("b", kind="category", words=("no", "yes")))
    settings = {"schema": tacit.Schema(columns, label="b"), "public_size": 10}
    model = PrivateGridSearchCV(FRAMED["output"](**settings), {"regularization": [0.1]}, 1.0, 1e-3, random_state=0)
    assert model.fit(pandas.DataFrame({"a": [], "b": []})).bound_.epsilon <= 1.0


@pytest.mark.parametrize("name", SIZED)
def test_null_records_are_not_offered(name):
    """A row of zeros counts in a cluster, a cell, a mean and an intercept, and moved sums by 1.58 of their share."""
    with pytest.raises(BadInput, match="zero-out"):
        SIZED[name](adjacency="zero-out").fit(X, Y)


def test_twice_as_many_records_are_too_many():
    with pytest.raises(BadInput, match="more than twice"):
        PrivateGaussianNB(classes=[0, 1], public_size=149).fit(X, Y)
    PrivateGaussianNB(classes=[0, 1], public_size=150).fit(X, Y)


def test_the_theorem_of_the_last_iterate_is_for_at_most_its_number_of_records():
    """Once, up to twice as many were taken, and the claim said "at most `size` records" beside "at most twice"."""
    settings = {"method": "dynamics", "classes": [0, 1], "random_state": 0}
    model = PrivateLogisticRegression(1.0, 1e-6, public_size=300, **settings).fit(X, Y)
    assert model.event_.size == 300
    assert model.bound_.assumptions[-1] == "there are at most 300 records"
    with pytest.raises(BadInput, match="more than public_size"):
        PrivateLogisticRegression(1.0, 1e-6, public_size=299, **settings).fit(X, Y)


def test_the_claim_says_what_covers_a_solver_that_stops_early():
    """The released point is no exact minimiser: the second event pays for the distance."""
    model = PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], random_state=0).fit(X, Y)
    assert {SMOOTH, EXACT, EVERYWHERE} <= set(model.bound_.assumptions)
    assert "except at finitely many points" in SMOOTH  # the table that PrivateERM minimises has corners in its slope
    assert "another event of the claim covers" in EXACT
    assert [type(part).__name__ for part in model.event_.events] == ["ObjectivePerturbation", "Gaussian"]
    earlier = replace(model.bound_, assumptions=(*model.bound_.assumptions[:1], *model.bound_.assumptions[3:]))
    told = replace(earlier, assumptions=(*earlier.assumptions, *FORMER[SMOOTH], *FORMER[EXACT]))
    for bound, right in ((model.bound_, True), (told, True), (earlier, False)):
        evidence = model.evidence()
        assert tacit.verify(evidence.with_(claim=replace(evidence.claim, bound=bound))).ok is right


def test_the_example_spends_one_budget_on_three_models(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("sqlalchemy")
    from examples.linear_models import main

    lines = main(tmp_path, 0)
    assert len(lines) == 4
    assert "refused" in lines[-1]


@pytest.mark.parametrize("features", [1, 4, 40])
def test_the_length_of_pure_noise_is_within_its_promise_with_probability_095(features):
    """The promise was once that of a normal vector, which held in 86 % of all fits with one feature."""
    shape = Shape(2, features, 1.0, 0.0, regularization=10.0)
    design = METHODS["output"](shape, Budget(1.0, 0.0, Adjacency.ADD_REMOVE))
    strength = design.regularization
    length = np.sqrt(2 * design.excess * shape.size / strength)
    share = (shape.steepness + 2 * shape.reachable(strength, 0.0)) / strength
    assert stats.gamma.cdf(length / share, features) == pytest.approx(0.95, abs=0.002)


def test_the_last_noise_counts_in_the_excess_of_objective_perturbation():
    """With very many records it is as large as the tilt's share: 11 % here."""
    few, many = (Shape(size, 20, 1.0, 0.25, regularization=3.0 / size) for size in (100, 30_000_000))
    budget = Budget(1.0, 1e-9, Adjacency.ADD_REMOVE)
    excess = [METHODS["objective"](shape, budget).excess * shape.size for shape in (few, many)]
    assert excess[1] > 1.05 * excess[0]


@pytest.mark.parametrize("method", ["sgd", "smooth", "single"])
def test_other_descents_cost_what_their_events_cost(monkeypatch, method):
    monkeypatch.setattr(descent, "SINGLE_STEPS", 500)
    settings = {"method": method, "adjacency": "replace", "classes": [0, 1], "norm_bound": 1.5, "random_state": 0}
    model = PrivateLogisticRegression(4.0, 1e-5, **settings).fit(X, Y)
    assert 3.9 < model.bound_.epsilon <= 4.0
    assert model.bound_.epsilon == pytest.approx(tacit.epsilon(model.event_, delta=1e-5, adjacency="replace").upper)
    assert model.score(X, Y) > (0.8 if method == "sgd" else 0.55)


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_sampled_descent_promises_counts_every_record_there_may_be(times):
    """Worked by hand (docs/proofs/erm.md, Theorem 7); once, samples of up to twice public_size records counted once."""
    shape = Shape(100, 2, 1.0, 0.25, regularization=0.0, most=100 * times)
    design = METHODS["sgd"](shape, Budget(1.0, 1e-5, Adjacency.ADD_REMOVE))
    assert not design.accelerated
    rate, steps, eta = design.rate, design.steps, design.step_size
    error = 2 * (design.noise_multiplier / (rate * 100)) ** 2 + times * (1 - rate) / (rate * 100)
    beta, kept = 0.25 * times, steps // 2
    passed = (1 + (steps - kept) * eta**2 * error) / (2 * eta * kept)
    assert design.expected == pytest.approx(passed + eta * error / 2 + beta * eta**2 * error / 2, rel=1e-8)


def test_a_long_descent_has_momentum_and_goes_on_improving_with_epsilon():
    """Once it ended after 400 plain steps, wherever it was: MNIST had the same accuracy at epsilon 1 and 8."""
    shapes = Shape(60_000, 7850, 1.58, 0.625, regularization=0.0)
    plans = [METHODS["gradient"](shapes, Budget(eps, 1e-9, Adjacency.ADD_REMOVE)) for eps in (0.01, 0.3, 1.0, 3.0, 8.0)]
    assert [plan.accelerated for plan in plans] == [False, True, True, True, True]
    assert all(later.time > 1.9 * before.time for before, later in pairwise(plans))
    assert all(later.expected < before.expected for before, later in pairwise(plans))
    assert max(plan.steps for plan in plans) <= descent.MOST_STEPS


@pytest.mark.parametrize("strength", [0.0, 0.02])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_momentum_keeps_its_promise(strength, noise):
    """Theorem 10 of docs/proofs/erm.md on a quadratic function, with directions that are bent and nearly flat."""
    bend, w, steps, rng = np.array([1.0, 0.1, 1e-3]), np.array([0.6, 0.6, 0.5]), 60, np.random.default_rng(0)
    plan = Design("gradient", Gaussian(1.0), noise, strength, steps, 0.5, accelerated=True)

    def excess():
        end = descent._with_momentum(lambda at: bend * (at - w) + noise * rng.normal(size=3), plan, np.zeros(3))
        value = lambda at: bend @ (at - w) ** 2 / 2 + strength / 2 * at @ at  # noqa: E731
        return value(end) - value(w)

    most = w @ w / (0.5 * steps * (steps + 1)) + 0.5 * 3 * noise**2 * (2 * steps + 1) / 3
    found = [excess() for _ in range(200 if noise else 1)]
    assert np.mean(found) <= most


def test_no_iterate_with_momentum_is_longer_than_its_rounding_bound_says(monkeypatch):
    """The rounding of gradients grows with the length of the iterates: `travel` bounds that, whatever the records."""
    lengths, plan = [], Design("gradient", Gaussian(1.0), 1.0, 0.3, 50, 2.0, accelerated=True)

    def pushed(at):
        lengths.append(float(np.linalg.norm(at)))
        return np.array([-1.0, 0.0])

    end = descent._with_momentum(pushed, plan, np.zeros(2))
    assert max(*lengths, np.linalg.norm(end)) <= plan.travel
    plain = replace(plan, regularization=0.0)
    assert np.linalg.norm(descent._with_momentum(pushed, plain, np.zeros(2))) > plain.travel / 3


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(0.05)])
@pytest.mark.parametrize("kind", ["noisy", "separable", "one far from all others"])
def test_a_kept_curvature_ends_within_the_tolerance(monkeypatch, loss, kind):
    """Of many records the curvature is computed once or a few times; the gradient is then checked in long doubles."""
    rng = np.random.default_rng(3)
    rows = bounded(rng.normal(size=(problems.MANY, 4)), 3.0, 0.5)
    sign = np.sign(rows @ [2.0, -1.0, 0.5, 1.0, 0.1] + (0.3 * rng.normal(size=len(rows)) if kind == "noisy" else 0.0))
    if kind == "one far from all others":
        rows[:, 1:4] *= 1e-6
        rows[0, :4], sign[0] = (0.0, 0.999, 0.0, 0.0), -1.0
    problem, seen = Problem(rows, sign, loss, 1.2), []
    real = Problem._products
    monkeypatch.setattr(Problem, "_products", lambda self, weight: seen.append(self.size) or real(self, weight))
    tolerance = problem.reachable(0.5, 0.0)
    theta = problem.minimum(0.5, np.zeros(5), tolerance)
    exact, wide = rows.astype(np.longdouble), theta.astype(np.longdouble)
    slope = loss.slope((sign * (exact @ wide)).astype(float))
    assert np.linalg.norm(exact.T @ (sign * slope) + 0.5 * wide) <= tolerance
    if loss == Logistic() and kind == "noisy":
        kept = seen.count(problems.MANY)
        monkeypatch.setattr(problems, "KEPT", 0.0)  # the mutant that keeps none
        problem.minimum(0.5, np.zeros(5), tolerance)
        assert 2 * kept < seen.count(problems.MANY)


def test_one_index_per_step_has_no_proof_for_a_record_more_or_less():
    with pytest.raises(BadInput, match="replace"):
        PrivateLogisticRegression(method="single", classes=[0, 1]).fit(X, Y)


@pytest.mark.parametrize("method", METHODS)
def test_one_record_is_enough_for_every_method(method):
    """One index per step made a single step for one record, and divided by zero."""
    settings = {"method": method, "classes": [0, 1], "adjacency": "replace", "random_state": 0}
    model = PrivateLogisticRegression(1.0, 1e-3, **settings).fit(X[:1], Y[:1])
    assert np.isfinite(model.coef_).all()
    assert 0.9 < model.bound_.epsilon <= 1.0


@pytest.mark.parametrize("method", ["gradient", "sgd", "smooth"])
def test_descents_keep_what_they_promise_on_average(method):
    """The mean objective over fits, against the best weights of norm 1; a promise of half a hundredth would fail."""
    rows, sign = bounded(X, 1.0, False), 2.0 * Y - 1
    best = Problem(rows, sign, Logistic(), 1.0).minimum(1e-3 * len(X), np.zeros(3), 1e-5)
    best /= max(np.linalg.norm(best), 1.0)
    value = lambda theta: float(np.mean(np.logaddexp(0, -sign * (rows @ theta))))  # noqa: E731
    settings = {"classes": [0, 1], "fit_intercept": False, "regularization": 0.0, "method": method}
    models = [PrivateLogisticRegression(0.5, 1e-5, **settings, random_state=s).fit(X, Y) for s in range(12)]
    over = np.array([value(model.coef_[0]) - value(best) for model in models])
    promised = models[0].utility_[EXPECTED]
    assert EXCESS not in models[0].utility_
    assert over.mean() <= promised < 3.0
    assert promised > 0.01


def test_what_a_record_is_answered_does_not_depend_on_who_else_is_asked():
    """Dense products are blocked by their size: with one record more, others near a border would change sides."""
    rng = np.random.default_rng(1)
    x, centres = rng.normal(size=(700, 29)), rng.normal(size=(5, 29))
    whole = products_by_row(x, centres.T)
    linear, naive = (
        made(classes=[0, 1], norm_bound=9.0, random_state=0).fit(x, (x[:, 0] > 0).astype(int))
        for made in (PrivateLogisticRegression, PrivateGaussianNB)
    )
    said = {model: ask(x) for model, ask in _asks(linear, naive)}
    for rows in (slice(0, 1), slice(1, 4), slice(3, 40), slice(1, 700)):
        assert np.array_equal(products_by_row(x[rows], centres.T), whole[rows])
        for model, ask in _asks(linear, naive):
            assert np.array_equal(ask(x[rows]), said[model][rows])


def _asks(linear, naive):
    return ("linear", linear.decision_function), ("naive Bayes", naive.predict_joint_log_proba)


@pytest.mark.parametrize("method", ["output", "gradient", "smooth"])
@pytest.mark.parametrize("weak", [1e-300, 1e200])
def test_a_regularisation_beyond_all_numbers_is_refused_before_it_is_paid(method, weak):
    """Once, noise on a minimiser without bounds overflowed after the charge."""
    till = Till(1)
    with pytest.raises(BadInput, match="regularization must be between"):
        PrivateLogisticRegression(classes=[0, 1], method=method, regularization=weak, ledger=till).fit(X, Y)
    assert not till.asked
    least = PrivateLogisticRegression(classes=[0, 1], method=method, regularization=1e-100, random_state=0).fit(X, Y)
    assert np.isfinite(least.coef_).all()


def test_evidence_says_that_steps_before_a_fit_are_not_covered():
    """Rows scaled by the data's own means, in a pipeline, say: the estimator cannot know."""
    model = PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], random_state=0).fit(X - X.mean(axis=0), Y)
    assert any("before the fit" in line for line in model.evidence().not_covered)


@pytest.mark.parametrize(
    ("settings", "name"), [({}, EXCESS), ({"method": "gradient"}, EXPECTED), ({"classes": [0, 1, 2]}, EXPECTED)]
)
def test_so_many_records_are_promised_the_excess_and_fewer_are_not(settings, name):
    model = PrivateLogisticRegression(**{"classes": [0, 1], "delta": 1e-9, "random_state": 0, **settings})
    size = model.records_needed(1.0, features=2)
    assert 100 < size < 10_000
    x = np.zeros((size, 2))
    promised = model.fit(x, x[:, 0]).utility_[name]
    fewer = model.fit(x[: round(0.97 * size)], x[: round(0.97 * size), 0]).utility_[name]
    assert promised <= 1.0 < fewer


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (PrivateLogisticRegression(classes=[0, 1]), "Give classes= and features="),
        (PrivateLogisticRegression(epsilon=-1.0, classes=[0, 1]), "epsilon"),
        (PrivateLogisticRegression(method="output", classes=[0, 1]), "No number of records"),
        (PrivateLogisticRegression(method="dynamics", classes=[0, 1]), "none about its excess"),
        (PrivateAdditiveTrees(bounds=(0, 1), classes=[0, 1]), "linear classifiers alone"),
    ],
)
def test_a_number_of_records_that_no_theorem_tells_is_refused(model, said):
    with pytest.raises(BadInput, match=said):
        model.records_needed(1e-3, features=None if "Give" in said else 3)
