"""One training, one model, one page: canaries are offered to the training by coins, so that it can be audited later.

    python examples/taken_model.py

400 random records with random labels are the canaries; a fair coin of its own decides for each whether it is trained
on. The model is trained once. `tacit.bracket` takes it as it is: its claim comes from its evidence, members and others
attack it, and the coins make a game of one run. Nothing is trained again.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import tacit


def main(seed=None, report="taken.html"):
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    rng = np.random.default_rng(seed)
    member = rng.random(len(x)) < 0.5
    canary_x, canary_y = rng.random((400, 64), dtype=np.float32), rng.integers(0, 10, 400)
    coins = rng.random(400) < 0.5

    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    data = (
        torch.as_tensor(np.concatenate((x[member], canary_x[coins]))),
        torch.as_tensor(np.concatenate((y[member], canary_y[coins]))),
    )
    plan = tacit.plan(1100, epsilon=4.0, delta=1e-5, epochs=12, batch_size=220)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    trained = tacit.fit(model, data, plan, optimizer=optimizer, delta=1e-5, rng=seed)

    evidence = tacit.bracket(
        trained,
        (x[member], y[member]),
        nonmembers=(x[~member], y[~member]),
        canaries=(canary_x, canary_y, coins),
        rng=seed,
    )
    tacit.report(evidence, report)
    print(evidence.sentence)
    return evidence


if __name__ == "__main__":
    main()
