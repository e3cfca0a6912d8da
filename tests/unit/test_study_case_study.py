"""The case study of backpropagation clipping, small: hundreds of models on a CPU, and its clipping against numpy."""

import importlib.util
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from examples import backpropagation_clipping as naive
from torch import nn

from tacit import BadInput
from tacit.core import Verdict
from tacit.core.randomness import Seeded
from tacit.data import load
from tacit.fleet.stack import stacked
from tacit.study.backpropagation import BackpropagationStack, Clipping, network
from tacit.study.case_study import VARIANTS, CaseStudy

ROOT = Path(__file__).resolve().parents[2]
CLIPPING = Clipping(naive.INPUTS, naive.OUTPUTS)
RIGHT, WRONG = VARIANTS[:2]


def records(count=40):
    data = load("digits")
    return data.x[:count], data.y[:count]


def stack(clipping=CLIPPING, models=3):
    start = [network(64, 32, 10, Seeded(seed)) for seed in range(models)]
    return BackpropagationStack(start[0], stacked(start), clipping=clipping)


@pytest.mark.parametrize("divided_by", [1.0, 3.0, 359.4])
def test_the_fleets_gradients_are_those_of_the_plain_example(divided_by):
    models = stack(replace(CLIPPING, divided_by=divided_by))
    x, y = records()
    mask = np.random.default_rng(0).random((3, len(x))) < 0.5
    found = models.gradients(torch.as_tensor(x), torch.as_tensor(y), torch.as_tensor(mask, dtype=torch.float32))
    for k in range(3):
        weights = [value[k].double().numpy() for value in models.parameters.values()]
        expected = naive.gradients(weights, x[mask[k]].astype(float), y[mask[k]], divided_by)
        for name, wanted in zip(models.parameters, expected, strict=True):
            np.testing.assert_allclose(found[name][k].numpy(), wanted, atol=2e-6)
        logits = models.logits(torch.as_tensor(x))[k].numpy()
        np.testing.assert_allclose(logits, naive.forward(weights, x.astype(float))[-1], atol=1e-5)


def norms(clipping):
    """Of every record's part of the gradient."""
    models, (x, y) = stack(clipping, models=1), records(200)
    rows, one = zip(torch.as_tensor(x), torch.as_tensor(y), strict=True), torch.ones(1, 1)
    each = [models.gradients(record[None], label[None], one) for record, label in rows]
    return np.array([np.sqrt(sum(float(value.square().sum()) for value in parts.values())) for parts in each])


def test_no_record_exceeds_the_sensitivity_and_with_the_bug_every_one_does():
    assert norms(CLIPPING).max() <= CLIPPING.sensitivity * (1 + 1e-6)
    assert norms(replace(CLIPPING, divided_by=512.0)).min() > 5 * CLIPPING.sensitivity


def small(**changes):
    data = load("digits")
    given = {"claim": (0.21, 1e-5), "rate": 0.0256, "steps": 60, "hidden": 16, "chance": Seeded(0)}
    return CaseStudy.of(data.x, data.y, **{**given, **changes})


def test_the_plan_keeps_the_claim_and_the_canary_is_a_pixel_of_its_own():
    study = small()
    assert study.plan.bound(1e-5).epsilon <= 0.21
    assert study.plan.clip_norm == CLIPPING.sensitivity
    assert study.plan.public_size == len(study.x) - 1 == 1797
    pixel = int(study.x[-1].argmax())
    assert np.count_nonzero(study.x[-1]) == 1
    assert not study.x[:-1, pixel].any()


def test_a_run_with_the_canary_differs_by_the_canary_alone():
    """Given its coins and noise a run is deterministic: without noise only models that saw the canary move apart."""
    study = replace(small(), plan=replace(small().plan, rate=0.5, steps=3))
    silent = replace(RIGHT, noise_too_small=1e9)
    one, other = (study.train(silent, np.full(8, coin), Seeded(3)) for coin in (True, False))
    direction = study.direction(other)
    ends = (one.stacks[0].parameters, other.stacks[0].parameters)
    moved = [sum((end[name] * direction[name]).sum() for name in direction) for end in ends]
    assert moved[0] > moved[1]
    pixel = int(study.x[-1].argmax())
    name = next(name for name, _ in study.start.named_parameters())
    start = dict(study.start.named_parameters())[name][:, pixel]
    torch.testing.assert_close(other.stacks[0].parameters[name][0, :, pixel], start, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_the_bug_is_refuted_and_the_right_twin_is_not():
    """250 + 250 models at confidence 1 - 1e-10; the right twin is refuted with probability at most 1e-10."""
    study = replace(small(), references=64)
    found = {}
    for variant in (RIGHT, WRONG):
        chance = Seeded(11)
        alone = study.train(variant, np.zeros(study.references, dtype=bool), chance)
        direction = study.direction(alone)
        first = study.play(variant, 120, direction, chance)
        scores = study.play(variant, 500, direction, chance, first=len(first))
        claim = study.claims((0.21, 1e-5))["pair"]
        evidence = study.evidence(variant, claim, first, scores, confidence=1 - 1e-10, chance=chance)
        assert all(control.passed for control in evidence.controls)
        found[variant] = evidence.verdict
    assert found == {RIGHT: Verdict.CONSISTENT, WRONG: Verdict.REFUTED}


@pytest.mark.parametrize(
    "model",
    [nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))],
    ids=["bias", "relu"],
)
def test_other_networks_are_refused(model):
    parameters = {name: value.detach()[None] for name, value in model.named_parameters()}
    with pytest.raises(BadInput, match="without bias"):
        BackpropagationStack(model, parameters, clipping=CLIPPING)


@pytest.mark.needs("data")
@pytest.mark.slow
def test_the_command_keeps_what_it_played_and_refuses_other_settings(tmp_path, monkeypatch, request):
    request.addfinalizer(partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("case_study_command", ROOT / "benchmarks" / "case_study.py")
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    for name, value in {"VARIANTS": (WRONG,), "HIDDEN": 4, "STEPS": 20}.items():
        monkeypatch.setattr(command, name, value)
    base = ["case_study.py", "--device", "cpu", "--seed", "5", "--out", str(tmp_path / "result.json")]
    monkeypatch.setattr(sys, "argv", [*base, "--models", "40", "--records", "600"])
    assert command.main() == 0
    first = json.loads((tmp_path / "result.json").read_text())
    assert [row["variant"] for row in first["rows"]] == [WRONG.name]
    assert first["rows"][0]["pair, 0.95"]["counts"]["n_in"] == 40
    assert "refuted" in (tmp_path / "result.html").read_text().lower()
    _, scores, told = command.kept(command.arguments(), WRONG, lambda: pytest.fail("played again"))
    assert told["accuracy"] == first["rows"][0]["accuracy"]
    assert len(scores) == 80
    monkeypatch.setattr(sys, "argv", [*base, "--models", "41", "--records", "600"])
    with pytest.raises(SystemExit, match="other settings"):
        command.main()
