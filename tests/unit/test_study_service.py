"""A model behind an API: asked once, within its budget, resumable, with labels or the first few classes alone."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import numpy as np
import pytest

import tacit
from tacit import BadInput, NotFinished
from tacit.study import service
from tacit.study.augmented_queries import towards_label
from tacit.study.service import Service, by_votes, http, synthesised, top_shares

pytest.importorskip("sklearn")
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER] / 16, Y[ORDER]
IN, OUT = (X[:300], Y[:300]), (X[300:600], Y[300:600])
FOREST = RandomForestClassifier(20, random_state=0).fit(*IN)


def fit(x, y, rng):
    return RandomForestClassifier(20, random_state=int(rng.integers(2**31))).fit(x, y)


class Counting:
    def __init__(self, answer=FOREST.predict_proba):
        self.answer, self.asked = answer, []

    def __call__(self, x):
        self.asked.append(len(x))
        return self.answer(x)


def test_records_are_asked_about_once():
    ask = Counting()
    target = Service(ask, batch=64)
    np.testing.assert_array_equal(target(X[:150]), FOREST.predict_proba(X[:150]))
    target(X[100:160])
    assert ask.asked == [64, 64, 22, 10]
    target(np.repeat(X[200:201], 5, axis=0))
    assert target.asked == 161


def test_a_budget_ends_it_and_a_journal_goes_on(tmp_path):
    first = Service(Counting(), queries=100, batch=40, journal=tmp_path / "asked.jsonl")
    with pytest.raises(NotFinished, match="50 records to go"):
        first(X[:150])
    assert first.asked == 100  # the last request was smaller: 20 queries were left unused
    assert (tmp_path / "asked.jsonl").stat().st_mode & 0o077 == 0
    with (tmp_path / "asked.jsonl").open("a") as file:
        file.write('["cut o')  # a process that was killed while it wrote
    ask = Counting()
    again = Service(ask, queries=150, batch=40, journal=tmp_path / "asked.jsonl")
    np.testing.assert_allclose(again(X[:150]), FOREST.predict_proba(X[:150]))
    assert sum(ask.asked) == 50
    assert len(Service(ask, journal=tmp_path / "asked.jsonl")._known) == 150
    with pytest.raises(BadInput, match="of another service"):
        Service(ask, journal=tmp_path / "asked.jsonl", name="the next version")


def test_a_service_that_fails_is_asked_again(monkeypatch):
    monkeypatch.setattr(service, "PAUSE", 0.0)
    fails = iter([True, True, False])

    def ask(x):
        if next(fails, True):
            raise ConnectionError
        return FOREST.predict_proba(x)

    assert Service(ask)(X[:5]).shape == (5, 10)
    with pytest.raises(NotFinished, match="did not answer"):
        Service(ask)(X[:5])
    with pytest.raises(BadInput, match="3 answers to 5 records"):
        Service(lambda x: np.zeros((3, 2)))(X[:5])


def test_the_first_classes_alone():
    """What two classes leave of 1 is spread over the others; the strength stays nearly what it was."""
    table = top_shares([{"b": 0.7, "a": 0.2}, {"c": 1.0}], ["a", "b", "c", "d"])
    np.testing.assert_allclose(table, [[0.2, 0.7, 0.05, 0.05], [0, 0, 1, 0]])
    with pytest.raises(BadInput, match="not among"):
        top_shares([{"z": 1.0}], ["a", "b"])

    def top(x):
        shares = FOREST.predict_proba(x)
        return [{int(k): float(row[k]) for k in np.argsort(-row)[:3]} for row in shares]

    found = [
        tacit.attack(target, IN, OUT, fit=fit, references=6, attacks=["lira"], rng=1).measurements[0].auc.value
        for target in (Service(top, classes=range(10)), FOREST.predict_proba)
    ]
    assert found[0] > 0.95 * found[1]
    with pytest.raises(BadInput, match="classes="):
        Service(top)(X[:5])


WORDS = np.array(["seven", "two", "nine", "one", "zero", "four", "six", "ten", "five", "three"])


def _three(names):
    def ask(x):
        return [{str(names[k]): float(row[k]) for k in np.argsort(-row)[:3]} for row in FOREST.predict_proba(x)]

    return ask


@pytest.mark.parametrize("kind", ["words", "numbers as text", "places", "a class more"])
def test_classes_of_a_service_are_found_by_their_names(kind):
    """Names in any order; labels are names, the numbers that names write, or places where they are neither."""
    sides, names, named, told = (IN, OUT), WORDS, WORDS, lambda y: y
    if kind == "words":
        told = WORDS.__getitem__
    elif kind == "numbers as text":
        names, named = np.arange(10).astype(str), np.array([str(k) for k in (3, 1, 0, 2, 4, 9, 8, 7, 6, 5)])
    elif kind == "a class more":
        told, named = WORDS.__getitem__, np.array([*WORDS[::-1], "eleven"])
    given = [(x, told(y)) for x, y in sides]
    plain, shown = (
        tacit.attack(target, *sides, fit=fit, references=4, attacks=["lira"], rng=1).measurements[0].auc.value
        for target, sides in (
            (Service(_three(np.arange(10)), classes=range(10)), sides),
            (Service(_three(names), classes=named), given),
        )
    )
    assert shown == pytest.approx(plain, abs=0.01 if kind == "a class more" else 0.0)


def test_labels_that_a_service_does_not_name():
    with pytest.raises(BadInput, match="not among classes="):
        tacit.attack(Service(_three(WORDS), classes=WORDS), *((x, WORDS[y] + "th") for x, y in (IN, OUT)), rng=1)


@pytest.mark.parametrize(
    "told", [lambda x: WORDS[FOREST.predict(x)], lambda x: FOREST.predict(x) + 1, lambda x: -x[:, 0]]
)
def test_votes_are_for_column_numbers(told):
    with pytest.raises(BadInput, match="whole numbers from 0 to 9"):
        by_votes(told, 0.1, classes=10)(X[:50])


def test_labels_with_ten_queries_find_more_than_one():
    def labels(x):
        return FOREST.predict(x)

    noise = 0.3 * X.std(axis=0)

    def voting(x, y, rng):
        return by_votes(fit(x, y, rng).predict, noise, classes=10)

    one = tacit.attack(labels, IN, OUT, fit=lambda x, y, rng: fit(x, y, rng).predict, references=6, rng=1)
    ten = tacit.attack(by_votes(Service(labels), noise, classes=10), IN, OUT, fit=voting, references=6, rng=1)
    best = [max(item.auc.value for item in found.attacks) for found in (one, ten)]
    assert best[1] > best[0] + 0.03


def test_records_can_be_made_up():
    x, y = synthesised(FOREST.predict_proba, [(0, 1)] * 64, 10, 60, np.random.default_rng(0), queries=6000)
    random = FOREST.predict_proba(np.random.default_rng(1).uniform(0, 1, (500, 64)))
    sure = FOREST.predict_proba(x)[np.arange(len(x)), y]
    assert len(x) > 30
    assert sure.mean() > 1.2 * random.max(axis=1).mean()
    with pytest.raises(BadInput, match="10 shares for each record"):
        synthesised(FOREST.predict, [(0, 1)] * 64, 10, 60, np.random.default_rng(0))


class Refusing(BaseHTTPRequestHandler):
    """Refuses who has no key, and is busy the first time."""

    busy = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status = 401 if self.headers["Authorization"] != "Bearer key" else 429 if Refusing.busy else 200
        Refusing.busy = Refusing.busy and status != 429
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(b'{"predictions": [1, 0]}' if status == 200 else b"")

    def log_message(self, *_):
        pass


def test_a_service_that_asks_for_a_key(monkeypatch):
    monkeypatch.setattr(service, "PAUSE", 0.0)
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(BadInput, match="HTTP status 401"):
            http(url)(X[:2])
        assert http(url, headers={"Authorization": "Bearer key"})(X[:2]).tolist() == [1, 0]
        assert not Refusing.busy
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        records = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        body = json.dumps({"predictions": FOREST.predict_proba(np.array(records)).round(4).tolist()}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_over_http_the_attack_is_as_strong():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        target = http(f"http://127.0.0.1:{server.server_port}/", queries=600)
        found = [
            tacit.attack(each, IN, OUT, fit=fit, references=6, attacks=["lira"], rng=1).measurements[0].auc.value
            for each in (target, FOREST)
        ]
    finally:
        server.shutdown()
        server.server_close()
    assert target.asked == 600
    assert found[0] > 0.97 * found[1]


def _top(shares, count, decimals):
    order = np.argsort(-shares, axis=1, kind="stable")[:, :count]
    return [{str(k): round(float(row[k]), decimals) for k in best} for row, best in zip(shares, order, strict=True)]


def test_shares_as_the_service_shows_them():
    """Of another model those classes are looked at that the service named for the same record, to its decimals."""
    shares, other = np.array([[0.62, 0.25, 0.1, 0.03], [0.4, 0.36, 0.14, 0.1]]), np.array([[0.1, 0.2, 0.3, 0.4]] * 2)
    asked = Service(lambda x: _top(shares[: len(x)], 2, 1), classes="0123")
    assert np.allclose(asked(X[:2]), [[0.6, 0.2, 0.1, 0.1], [0.4, 0.4, 0.1, 0.1]])
    assert np.allclose(asked.shown(shares, X[:2]), asked(X[:2]))
    assert np.allclose(asked.shown(other, X[:2]), [[0.1, 0.2, 0.35, 0.35]] * 2)
    above = Service(lambda x: [{"3": 0.62, "1": 0.25}, {"0": 0.4, "1": 0.36, "2": 0.14}][: len(x)], classes="0123")
    above(X[:2])
    assert np.allclose(above.shown(other, X[[1, 0]]), [[0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.2, 0.4]])
    assert np.array_equal(above.shown(other[:1], X[2:3]), other[:1])  # it was not asked about this record
    whole = Service(lambda x: shares[: len(x)])
    whole(X[:2])
    assert np.array_equal(whole.shown(other, X[:2]), other)


@pytest.mark.parametrize("scores", [{"a": 97.0, "b": 2.0}, {"a": 3.1, "b": -0.4}, {"a": 0.9, "b": 0.8}])
def test_first_classes_with_scores_that_are_no_shares(scores):
    """Percentages of some classes were read as logits; rounded shares may sum to a little more than 1."""
    with pytest.raises(BadInput, match="must be shares of 1"):
        top_shares([scores, {"a": 0.5}], "abc")
    assert top_shares([{"a": 3.1, "b": -0.4, "c": 1.0}], "abc").tolist() == [[3.1, -0.4, 1.0]]  # all classes: logits
    assert top_shares([{"a": 0.6, "b": 0.5}], "abc").tolist() == [[0.6, 0.5, 0.0]]


def test_references_are_seen_as_the_service_shows_itself():
    """Every reference is looked at through the classes that the service named, on all records and copies."""

    class Watched(Service):
        looked: ClassVar = []

        def shown(self, shares, x):
            self.looked.append((shares.shape, len(x)))
            return super().shown(shares, x)

    asked = Watched(lambda part: _top(FOREST.predict_proba(part), 1, 2), classes="0123456789")
    game = {"references": 3, "attacks": ["lira"], "rng": 1, "fit": fit}
    tacit.attack(asked, IN, OUT, **game)
    assert asked.looked == [((600, 10), 600)] * 3
    tacit.attack(asked, IN, OUT, augment=towards_label(X[:600], Y[:600]), **game)
    assert asked.looked[3:] == [((1200, 10), 1200)] * 3


def test_labels_with_scores_are_shares():
    """The form of Hugging Face's services; an empty list names nothing."""
    pairs = [[{"label": "a", "score": 0.7}, {"label": "b", "score": 0.2}], {"label": "c", "score": 0.4}]
    asked = Service(lambda x: [pairs[k % 2] for k in range(len(x))], classes="abc")
    assert np.allclose(asked(X[:2]), [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize("answers", [[[0.5, 0.5], [0.2, 0.3, 0.5]], [{"0": 0.5}, 1], [[0.5, 0.5], 1]])
def test_answers_of_several_kinds_are_refused(answers):
    with pytest.raises(BadInput, match="one kind and length"):
        Service(lambda x: answers, classes="01")(X[:2])


def test_an_object_around_the_shares_is_not_taken_for_the_shares():
    """It was said that classes= was missing, which mends nothing."""
    target = Service(lambda x: [{"probabilities": [0.5, 0.5], "class": 0} for _ in x])
    with pytest.raises(BadInput, match="more than a number for each class"):
        target(X[:3])


def test_an_address_without_a_scheme_gets_a_sentence():
    with pytest.raises(BadInput, match="begin with http"):
        http("localhost:8080/predict")
