"""Our own DP-SGD audited end to end at epsilon 4: one run of `tacit.private`, gradient canaries, all updates seen.

    python benchmarks/own_training.py [--canaries 20000] [--steps 400] [--seed 1]

Rate 0.05, a network 64-160-10 (12,010 parameters) on the digits of scikit-learn, and one weight per canary beside it.
The bound is that of one run in the claimed event's family, which asks for nothing but the canaries' coins. About five
minutes of one core.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from torch import nn

from machine import RESULTS, describe, keep
from tacit import Plan
from tacit.audits import stated
from tacit.core import source
from tacit.data import load
from tacit.study.gradient_canaries import Trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--canaries", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    torch.manual_seed(0)  # initial parameters are public
    data, chance = load("digits"), source(given.seed)
    plan = Plan(len(data.x) + given.canaries // 2, 0.05, given.steps, 1.0).calibrated(epsilon=4.0, delta=1e-5)
    network = nn.Sequential(nn.Linear(64, 160), nn.Tanh(), nn.Linear(160, 10))
    began = time.process_time()
    trial = Trial(data.x, data.y, network, plan, given.canaries)
    evidence = trial.audit(stated(plan, delta=1e-5), confidence=0.95, chance=chance)
    shown = evidence.demonstrations[-1]
    row = {
        "claim": round(plan.bound(1e-5).epsilon, 4),
        "rate": plan.rate,
        "steps": plan.steps,
        "noise_multiplier": plan.noise_multiplier,
        "network_parameters": sum(value.numel() for value in network.parameters()),
        "canaries": given.canaries,
        "guesses": shown.counts.true_positives + shown.counts.false_positives,
        "right": shown.counts.true_positives,
        "method": shown.bound.method,
        "epsilon_at_least": round(shown.bound.epsilon, 4),
        "share_of_claim": round(shown.bound.epsilon / plan.bound(1e-5).epsilon, 3),
        "attainable": round(shown.attainable, 3),
        "verdict": evidence.verdict.value,
        "controls_passed": all(control.passed for control in evidence.controls),
        "randomness": chance.name,
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    path = keep("own-training", describe("torch", "numpy"), row)
    evidence.save(RESULTS / "own-training-evidence.json")
    print(row, path)
    return 0 if evidence.verdict.value == "consistent" and row["share_of_claim"] >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
