"""Backpropagation clipping in plain numpy, right and with the bug of a published case study (Tramer et al. 2022).

    tacit audit examples.backpropagation_clipping:fit         --event examples/claim.json --data digits --runs 200
    tacit audit examples.backpropagation_clipping:fit_buggy   --event examples/claim.json --data digits --runs 200

Each layer clips its input to norm A and the gradient of its output to norm E, so a record moves the layer's gradient by
at most A E. Both train by rate 0.2, 100 steps, noise multiplier 2.375, which is epsilon 4 at delta 1e-5. The second
clips the gradient of the *mean* loss to E: what was meant for one record's e is asked of e / batch, and bounds nothing.
benchmarks/case_study.py audits the same training with 100,000 + 100,000 models.
"""

import numpy as np

RATE, STEPS, NOISE_MULTIPLIER, LEARNING_RATE = 0.2, 100, 2.375, 0.5
PUBLIC_SIZE, HIDDEN, CLASSES = 1797, 32, 10
INPUTS, OUTPUTS = (1.0, 0.2), (0.05, 0.1)
SENSITIVITY = np.hypot(INPUTS[0] * OUTPUTS[0], INPUTS[1] * OUTPUTS[1])


def fit(x, y, rng):
    """Right: e is clipped to E before anything is divided."""
    return train(x, y, rng, divided_by=1.0)


def fit_buggy(x, y, rng):
    """Wrong: e / batch is clipped to E, which is e to batch times E."""
    return train(x, y, rng, divided_by=RATE * PUBLIC_SIZE)


def train(x, y, rng, divided_by):
    start = np.random.default_rng(0)  # initial parameters are public
    weights = [
        start.normal(size=(HIDDEN, x.shape[1])) * 0.25 / HIDDEN**0.5,
        start.normal(size=(CLASSES, HIDDEN)) / HIDDEN**0.5,
    ]
    for _ in range(STEPS):
        chosen = rng.random(len(x)) < RATE
        sums = gradients(weights, x[chosen], y[chosen], divided_by)
        for weight, total in zip(weights, sums, strict=True):
            noise = rng.normal(0.0, NOISE_MULTIPLIER * SENSITIVITY, total.shape)
            weight -= LEARNING_RATE / SENSITIVITY * (total + noise) / (RATE * PUBLIC_SIZE)
    return lambda records: softmax(forward(weights, records)[-1])


def forward(weights, x):
    """(clipped input of layer 1, tanh of its output, clipped input of layer 2, logits)."""
    first = clipped(x, INPUTS[0])
    hidden = np.tanh(first @ weights[0].T)
    second = clipped(hidden, INPUTS[1])
    return first, hidden, second, second @ weights[1].T


def gradients(weights, x, y, divided_by):
    """Sums over records of (clipped gradient of the output) x (clipped input), layer by layer."""
    first, hidden, second, logits = forward(weights, x)
    e2 = clipped(softmax(logits) - np.eye(CLASSES)[y], OUTPUTS[1] * divided_by)
    e1 = clipped(e2 @ weights[1] * (1 - hidden**2), OUTPUTS[0] * divided_by)
    return e1.T @ first, e2.T @ second


def clipped(rows, norm):
    return rows * np.minimum(1.0, norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def softmax(logits):
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
