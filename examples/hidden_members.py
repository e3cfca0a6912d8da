"""Does adversarial regularisation hide the members? The same network with and without it, attacked from three sides.

    python -m examples.hidden_members

Labels of scikit-learn's digits are partly wrong here, so that there is something to memorise. Black-box, layers and
gradients are judged on records that the attacker was not told about.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from tacit import attacks
from tacit.attacks.internals import look_inside
from tacit.train.recipe.defence import AdversarialRegularisation, Plain, defend

NAMES = ("gradient-norm", "learned-black-box", "white-box-outputs", "white-box-gradients")


def data(rng, records):
    """Members, as many others, and records for the defender; a third of all labels is made up."""
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x, y = x[order].astype(np.float32) / 16, y[order]
    y = np.where(rng.random(len(y)) < 1 / 3, rng.integers(0, 10, len(y)), y)
    first, second = slice(records), slice(records, 2 * records)
    return (x[first], y[first]), (x[second], y[second]), (x[1200:], y[1200:])


def found(model, members, others):
    """Area under each attack's curve."""
    x, y = (np.concatenate(parts) for parts in zip(members, others, strict=True))
    seen = look_inside(model, x, y, member=np.arange(len(y)) < len(members[1]))
    judged, known = attacks.known_split(seen, 0)
    scores = (attacks.named(name) for name in NAMES)
    return [(each(judged, known) if each.references.of_target else each(judged)).auc().value for each in scores]


def accuracy(model, x, y):
    with torch.no_grad():
        return float((model(torch.as_tensor(x)).argmax(1).numpy() == y).mean())


def adam(parameters):
    return torch.optim.Adam(parameters, lr=3e-3)


def main(epochs=80, records=600):
    members, others, reference = data(np.random.default_rng(0), records)
    results = {}
    for defence in (Plain(), AdversarialRegularisation(3.0)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        model = defend(model, members, defence, epochs=epochs, optimizer=adam, reference=reference, rng=1)
        areas = dict(zip(NAMES, found(model, members, others), strict=True))
        results[type(defence).__name__] = areas
        print(f"{type(defence).__name__}: train {accuracy(model, *members):.0%}, test {accuracy(model, *others):.0%}")
        for name, area in areas.items():
            print(f"  {name:20} area {area:.3f}")
    return results


if __name__ == "__main__":
    main()
