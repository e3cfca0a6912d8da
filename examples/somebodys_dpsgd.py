"""Somebody else's DP-SGD, in plain numpy: right, and with a bug that no test of accuracy would find.

    tacit audit examples.somebodys_dpsgd:fit         --event examples/claim.json --data digits --runs 200
    tacit audit examples.somebodys_dpsgd:fit_buggy   --event examples/claim.json --data digits --runs 200

Both train the quickstart's network (64-32-10, tanh) by the quickstart's plan: rate 0.2, 100 steps, noise multiplier
2.375, which is epsilon 4 at delta 1e-5. The second divides the noise by the batch size twice.
"""

import numpy as np

RATE, STEPS, NOISE_MULTIPLIER, CLIP_NORM, LEARNING_RATE = 0.2, 100, 2.375, 1.0, 2.0
PUBLIC_SIZE = 1797


def fit(x, y, rng):
    """Right: (sum of clipped gradients + noise) / expected batch."""
    return train(x, y, rng, lambda noise, batch: noise / batch)


def fit_buggy(x, y, rng):
    """Wrong: the noise was already scaled to the mean, and is divided again."""
    return train(x, y, rng, lambda noise, batch: noise / batch / batch)


def train(x, y, rng, scaled_noise):
    classes, batch = 10, RATE * PUBLIC_SIZE
    shapes = [(x.shape[1], 32), (32,), (32, classes), (classes,)]
    start = np.random.default_rng(0)  # initial parameters are public
    w1, b1, w2, b2 = (start.uniform(-1, 1, shape) / np.sqrt(shape[0]) for shape in shapes)
    for _ in range(STEPS):
        chosen = rng.random(len(x)) < RATE
        a, target = x[chosen], np.eye(classes)[y[chosen]]
        hidden = np.tanh(a @ w1 + b1)
        error2 = softmax(hidden @ w2 + b2) - target
        error1 = error2 @ w2.T * (1 - hidden**2)
        squared = (error2**2).sum(1) * (1 + (hidden**2).sum(1)) + (error1**2).sum(1) * (1 + (a**2).sum(1))
        factor = np.minimum(1.0, CLIP_NORM / np.sqrt(squared))[:, None]
        sums = a.T @ (factor * error1), (factor * error1).sum(0), hidden.T @ (factor * error2), (factor * error2).sum(0)
        for weight, total in zip((w1, b1, w2, b2), sums, strict=True):
            noise = rng.normal(0.0, NOISE_MULTIPLIER * CLIP_NORM, total.shape)
            weight -= LEARNING_RATE * (total / batch + scaled_noise(noise, batch))
    return lambda records: softmax(np.tanh(records @ w1 + b1) @ w2 + b2)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
