"""Somebody else's DP-SGD, in plain numpy: right, and with a bug that no test of accuracy would find.

    tacit audit examples.somebodys_dpsgd:fit         --event examples/claim.json --data digits --runs 200
    tacit audit examples.somebodys_dpsgd:fit_buggy   --event examples/claim.json --data digits --runs 200
    tacit audit examples.somebodys_dpsgd:steps       --event examples/claim.json --data digits --runs 20 --game updates

They train the quickstart's network (64-32-10, tanh) by the quickstart's plan: rate 0.2, 100 steps, noise multiplier
2.375, which is epsilon 4 at delta 1e-5. The second divides the noise by the batch size twice. The third shows the model
after every step, and takes the data of the next one: so every step of a run is a game.
"""

from functools import partial

import numpy as np

RATE, STEPS, NOISE_MULTIPLIER, CLIP_NORM, LEARNING_RATE = 0.2, 100, 2.375, 1.0, 2.0
PUBLIC_SIZE, CLASSES = 1797, 10


def fit(x, y, rng):
    """Right: (sum of clipped gradients + noise) / expected batch."""
    return last(steps(x, y, rng), x, y)


def fit_buggy(x, y, rng):
    """Wrong: the noise was already scaled to the mean, and is divided again."""
    return last(steps_buggy(x, y, rng), x, y)


def steps(x, y, rng, scaled=lambda noise, batch: noise / batch):
    """The model before the first and after every step; each step trains on the data that it is handed."""
    shapes = [(x.shape[1], 32), (32,), (32, CLASSES), (CLASSES,)]
    start = np.random.default_rng(0)  # initial parameters are public
    weights = [start.uniform(-1, 1, shape) / np.sqrt(shape[0]) for shape in shapes]
    for _ in range(STEPS):
        x, y = yield partial(predict, weights)
        chosen = rng.random(len(x)) < RATE
        sums = clipped_sums(weights, x[chosen], np.eye(CLASSES)[y[chosen]])
        batch = RATE * PUBLIC_SIZE
        noise = [rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM, total.shape) for total in sums]
        weights = [
            w - LEARNING_RATE * (s / batch + scaled(n, batch)) for w, s, n in zip(weights, sums, noise, strict=True)
        ]
    yield partial(predict, weights)


def steps_buggy(x, y, rng):
    """The steps of the wrong one."""
    return steps(x, y, rng, lambda noise, batch: noise / batch / batch)


def clipped_sums(weights, a, target):
    """The sum over the batch of gradients clipped to CLIP_NORM, one array per parameter."""
    w1, b1, w2, b2 = weights
    hidden = np.tanh(a @ w1 + b1)
    error2 = softmax(hidden @ w2 + b2) - target
    error1 = error2 @ w2.T * (1 - hidden**2)
    squared = (error2**2).sum(1) * (1 + (hidden**2).sum(1)) + (error1**2).sum(1) * (1 + (a**2).sum(1))
    factor = np.minimum(1.0, CLIP_NORM / np.sqrt(squared))[:, None]
    return a.T @ (factor * error1), (factor * error1).sum(0), hidden.T @ (factor * error2), (factor * error2).sum(0)


def last(models, x, y):
    """The model after the last step, all of them on the same data."""
    return [next(models), *(models.send((x, y)) for _ in range(STEPS))][-1]


def predict(weights, records):
    w1, b1, w2, b2 = weights
    return softmax(np.tanh(records @ w1 + b1) @ w2 + b2)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
