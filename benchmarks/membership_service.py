"""A model behind a local HTTP server, attacked through its API, beside the same attack with full access."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neural_network import MLPClassifier

import tacit
from tacit.study import service
from tacit.study.augmented_queries import Copies, towards_label

Array = NDArray[Any]
CLASSES, TREES, SHIFTS = 10, 30, ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))


def data(seed: int, n: int) -> tuple[Array, Array]:
    """Digits with a fifth of the labels wrong, so that there is something to remember."""
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(x))[: 2 * n]
    return x[rows] / 16, np.where(rng.random(2 * n) < 0.2, rng.integers(0, CLASSES, 2 * n), y[rows])


def train(x: Array, y: Array, rng: np.random.Generator) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=int(rng.integers(2**31))).fit(x, y)


def shifted(x: Array, k: int) -> Array:
    """Pictures moved by one pixel in one of five ways."""
    return np.roll(x.reshape(-1, 8, 8), SHIFTS[k], axis=(1, 2)).reshape(len(x), -1)


def with_shifts(x: Array, y: Array, rng: np.random.Generator) -> ExtraTreesClassifier:
    """Training that augments: every picture in all five places."""
    return train(np.concatenate([shifted(x, k) for k in range(5)]), np.tile(y, 5), rng)


def network(x: Array, y: Array, rng: np.random.Generator) -> MLPClassifier:
    """A network, whose shares are spread over all classes: what the service leaves out is missed."""
    made = MLPClassifier((64,), learning_rate_init=5e-3, max_iter=40, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is stopped early
        return made.fit(x, y)


CHOSEN = {
    "plain training": "API, top 3 of 3 decimals, 1 query",
    "augmented training": "API, 5 augmented queries",
    "network": "API, 2 queries towards the label",
}
"""What is asked of each kind of model: the best on seeds from 100 on, which are not reported."""
TRAININGS = {"plain training": train, "augmented training": with_shifts, "network": network}


def serving(answer: Callable[[Array], list[Any]]) -> tuple[ThreadingHTTPServer, str]:
    """A server of `answer` on a free local port, in the form of TensorFlow Serving."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
            body = json.dumps({"predictions": answer(np.array(asked))}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *parts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/v1/models/digits:predict"


def top3(shares: Array) -> list[dict[str, float]]:
    """The three likeliest classes, with three decimals."""
    return [{str(k): round(float(row[k]), 3) for k in np.argsort(-row, kind="stable")[:3]} for row in shares]


def through(url: str, **more: Any) -> service.Service:
    return service.http(url, batch=500, **more)


def strength(evidence: tacit.Evidence) -> dict[str, Any]:
    """The strongest attack's area and rate at 1 %, by its rate."""
    best = max(evidence.attacks, key=lambda item: (item.tpr_at_fpr[0][1].value or 0.0, item.auc.value or 0.0))
    rate = float(best.tpr_at_fpr[0][1].value or 0.0)
    return {"attack": best.attack, "area": float(best.auc.value or 0.0), "rate at 1 %": rate}


def run(seeds: int = 10, n: int = 300, references: int = 8, work: Path | None = None) -> dict[str, Any]:
    """Each training at each seed, and means over seeds; finished rows are kept in `work`, a line for each."""
    lines = work.read_text(encoding="utf-8").splitlines() if work is not None and work.is_file() else ()
    rows = [json.loads(line) for line in lines]
    done = {(row["training"], row["seed"]) for row in rows}
    for seed in range(seeds):
        x, y = data(seed, n)
        sides = ((x[:n], y[:n]), (x[n:], y[n:]))
        for name, fit in TRAININGS.items():
            if (name, seed) in done:
                continue
            rows.append(_one(name, seed, sides, fit, references))
            print(rows[-1], flush=True)
            if work is not None:
                with work.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return {"means": [means(name, rows) for name in dict.fromkeys(row["training"] for row in rows)], "rows": rows}


def means(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean rates at 1 % over seeds, by what the attacker may ask, and shares of what full access finds."""
    some = [row for row in rows if row["training"] == name]
    ways = [way for way, found in some[0].items() if isinstance(found, dict) and "rate at 1 %" in found]
    rates = {way: float(np.mean([row[way]["rate at 1 %"] for row in some])) for way in ways}
    found = {
        "training": name,
        "seeds": len(some),
        "rate at 1 %": {way: round(value, 4) for way, value in rates.items()},
    }
    found["asked"] = CHOSEN[name]
    found["share of full access"] = round(rates[CHOSEN[name]] / rates["full access"], 4)
    print(found, flush=True)
    return found


def _one(name: str, seed: int, sides: Any, fit: Any, references: int) -> dict[str, Any]:
    model = fit(*sides[0], np.random.default_rng(seed))
    records = sum(len(side[1]) for side in sides)
    game = {"references": references, "rng": seed, "fpr": (0.01,)}
    row: dict[str, Any] = {"training": name, "seed": seed, "records": records}
    row["full access"] = strength(tacit.attack(model, *sides, fit=fit, **game))
    server, url = serving(lambda part: top3(model.predict_proba(part)))
    names = [str(k) for k in range(CLASSES)]
    asked = through(url, classes=names, queries=records)
    row["API, top 3 of 3 decimals, 1 query"] = strength(tacit.attack(asked, *sides, fit=fit, **game))
    copies = through(url, classes=names, queries=5 * records)
    several = tacit.attack(copies, *sides, fit=fit, augment=Copies(shifted, 5), **game)
    row["API, 5 augmented queries"] = strength(several)
    nearer = through(url, classes=names, queries=2 * records)
    moved = towards_label(*(np.concatenate(part) for part in zip(*sides, strict=True)))
    row["API, 2 queries towards the label"] = strength(tacit.attack(nearer, *sides, fit=fit, augment=moved, **game))
    server.shutdown()
    server, url = serving(lambda part: [int(k) for k in model.predict_proba(part).argmax(axis=1)])
    labels = through(url, queries=10 * records)
    votes = lambda predict: service.by_votes(predict, 0.1, copies=10, classes=CLASSES)  # noqa: E731
    told = lambda x, y, rng: votes(fit(x, y, rng).predict)  # noqa: E731
    row["API, labels only, 10 queries"] = strength(tacit.attack(votes(labels), *sides, fit=told, **game))
    used = {"top 3": asked, "augmented": copies, "towards the label": nearer, "labels": labels}
    row["queries a record"] = {key: item.asked / records for key, item in used.items()}
    server.shutdown()
    return row
