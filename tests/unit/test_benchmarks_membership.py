"""The membership benchmark at its smallest: it resumes, parts add up to the whole, and another recipe is refused."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tacit import BadInput

pytest.importorskip("torch")
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = [pytest.mark.needs("data"), pytest.mark.needs("PIL")]


@pytest.fixture
def lira(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import membership_lira

    yield membership_lira
    for name in (
        "membership",
        "membership_lira",
        "membership_defences",
        "membership_white_box",
        "networks",
        "pictures",
    ):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_parts_and_resumption_give_what_one_run_gives(lira, tmp_path, capsys):
    whole = lira.run("tiny", "cpu", 0, tmp_path / "whole")
    assert lira.run("tiny", "cpu", 0, tmp_path / "parts", "1/2") == []
    trained = sorted(path.name for path in (tmp_path / "parts").glob("*.npz"))
    assert trained == ["1.npz", "3.npz", "5.npz"]
    capsys.readouterr()
    assert lira.run("tiny", "cpu", 0, tmp_path / "parts") == whole
    assert "model 1 " not in capsys.readouterr().out
    assert [row["references"] for row in whole] == [2, 4]
    assert set(whole[0]["attacks"]) == set(lira.NAMES)
    with pytest.raises(BadInput, match="another recipe"):
        lira.run("tiny", "cpu", 1, tmp_path / "whole")


def test_every_record_is_in_half_of_the_references(lira):
    recipe = lira.RECIPES["tiny"]
    sides = lira.member(recipe, 10)
    assert (sides.sum(0) == recipe.records // 2).all()
    for target in range(10):
        chosen = lira.others(target, 4, 10)
        assert not {target, target ^ 1} & set(chosen)
        assert len(set(chosen)) == 4
        assert (sides[:, chosen].sum(1) == 2).all()
    np.testing.assert_array_equal(lira.member(recipe, 4), sides[:, :4])


def test_pictures_move_and_mirror_by_hand(lira):
    import torch

    import networks

    x = torch.arange(2 * 3 * 32 * 32, dtype=torch.float32).reshape(2, 3, 32, 32)
    moved = networks.augmented(x, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    down, right, mirror = (torch.randint(0, most, (2,), generator=generator) for most in (9, 9, 2))
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    for k in range(2):
        expected = padded[k, :, down[k] : down[k] + 32, right[k] : right[k] + 32]
        torch.testing.assert_close(moved[k], expected.flip(2) if mirror[k] else expected)


def test_rate_at_takes_no_more_false_alarms_than_allowed(lira):
    from tacit import Scores

    scores = Scores([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], attack="a", randomised=False)
    assert lira.rate_at(scores, 0.001) == 0.5
    assert lira.rate_at(scores, 0.5) == 1.0


@pytest.mark.slow
def test_every_defence_gets_a_row(lira):
    import membership_defences as defences

    (found,) = defences.run("tiny", "location30", 0)
    assert [row["defence"] for row in found["defences"]] == list(defences.DEFENCES)
    assert all(0 <= row["attack_accuracy"] <= 1 for row in found["defences"])
    assert len({item["record"] for item in found["most_memorised"]}) == 10


@pytest.mark.slow
def test_white_box_parts_meet_in_a_folder(lira, tmp_path):
    import membership_white_box as white_box

    assert white_box.run("tiny", "cpu", 0, tmp_path, "1/4") == []
    assert sorted(path.suffix for path in tmp_path.glob("white-box-tiny-0-alexnet.*")) == [".json", ".pt"]
    assert len(list(tmp_path.iterdir())) == 2
    for name in ("snapshots", "resnet", "densenet"):
        (tmp_path / f"white-box-tiny-0-{name}.json").write_text(f'{{"architecture": "{name}"}}', encoding="utf-8")
    rows = white_box.run("tiny", "cpu", 0, tmp_path)
    assert [row["architecture"] for row in rows] == ["snapshots", "alexnet", "resnet", "densenet"]
    assert set(rows[1]["attack_accuracy"]) == set(white_box.ATTACKS)
    assert all(gain["lower"] <= gain["gain"] <= gain["upper"] for gain in rows[1]["gains"].values())
    first = white_box.ATTACKS[2]
    accuracy = {name: found["accuracy"] for name, found in rows[1]["attack_accuracy"].items()}
    total = sum(gain["gain"] for gain in rows[1]["gains"].values())
    assert accuracy[white_box.STEPS] - accuracy[first] == pytest.approx(total)


@pytest.mark.parametrize("given", [["--part", "9"], ["--part", "4/4"], ["--part", "0/2"]])
def test_a_part_that_is_none(lira, given, monkeypatch, capsys):
    import membership

    monkeypatch.setattr(sys, "argv", ["membership.py", "white-box", "--scale", "tiny", *given])
    with pytest.raises(SystemExit) as stopped:
        membership.main()
    assert stopped.value.code == 2
    assert "--part" in capsys.readouterr().err


def test_the_published_order_can_be_missed(lira):
    from membership_white_box import ATTACKS, ordered

    def row(outputs, gradients):
        rates = {name: {"accuracy": 0.9} for name in ATTACKS}
        return {"attack_accuracy": {**rates, ATTACKS[3]: {"accuracy": outputs}, ATTACKS[4]: {"accuracy": gradients}}}

    def later(*rates):
        return {"snapshots": [{"accuracy": rate} for rate in rates]}

    assert ordered([row(0.6, 0.7), later(0.5, 0.6, 0.7)])
    assert not ordered([row(0.7, 0.6)])
    assert not ordered([row(0.6, 0.7), later(0.5, 0.7, 0.6)])


def test_the_matrix_and_the_splits_at_their_smallest(lira, monkeypatch):
    """One cell of the matrix, and one split of each kind; `lira` puts the benchmarks on the path."""
    from sklearn.ensemble import RandomForestClassifier

    import membership_honesty
    import membership_matrix

    monkeypatch.setattr(membership_matrix, "MODELS", 6)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 160)
    x = np.eye(5)[y] + 0.7 * rng.normal(size=(160, 5))
    row = membership_matrix.one(lambda seed: RandomForestClassifier(10, random_state=seed), x, y, 0)
    assert set(row["forms"]) == {"float64", "float32", "float16", "4 decimals", "labels"}
    found = membership_matrix.judged([{"data": "made up", "kind": "forest", **row}])
    assert found["best: below 0.9 of plain beyond chance"] == []
    for error, beyond in ((0.2, []), (0.1, ["a: b, float16"])):  # below by 0.3, of which two errors are 0.4 or 0.2
        row["forms"]["float16"]["over float64"]["best"]["0.01"] = [-0.3, error]
        found = membership_matrix.judged([{"data": "a", "kind": "b", **row}])
        assert found["best: forms below 0.9 of float64"] == ["a: b, float16"]
        assert found["best: forms below 0.9 of float64 beyond chance"] == beyond
    each = {fpr: np.array([0.2, 0.4]) for fpr in membership_matrix.FPRS}
    assert membership_matrix.over(each, each)["0.01"] == [0.03, 0.01]
    for kind in membership_honesty.CONFOUNDS:
        x, y, member = membership_honesty.split(kind, 0, 50)
        assert (x.shape, y.shape, member.sum()) == ((100, 10), (100,), 50)
    for name in ("membership_matrix", "membership_honesty"):
        sys.modules.pop(name, None)


def test_the_matrix_goes_on_cell_by_cell(lira, tmp_path, monkeypatch):
    """Parts share a file, a line that was cut off is measured again, and finished cells are not."""
    import membership_matrix as matrix
    from membership_verdicts import matrix as said
    from pieces import Pieces

    measured = []

    def one(make, x, y, seed):
        rates = {"0.01": 0.5, "0.001": 0.1}
        over = {kind: {"0.01": [0.05, 0.01]} for kind in ("combined", "best")}
        measured.append(make)
        form = {"combined": rates, "best": rates, "over plain": over, "over float64": over}
        return {"plain": rates, "forms": dict.fromkeys(matrix.FORMS, form)}

    monkeypatch.setattr(matrix, "one", one)
    monkeypatch.setattr(matrix, "data", lambda folder, name, records: (np.zeros((2, 1)), np.zeros(2)))
    monkeypatch.setattr(matrix, "kinds", lambda quick: {"a": "a", "b": "b"})
    work = tmp_path / "cells"
    assert matrix.run(tmp_path, pieces=Pieces(work, seconds=-1.0))["missing"] == 6
    assert matrix.run(tmp_path, pieces=Pieces(work, (1, 2)))["missing"] == 3
    assert measured == ["b", "b", "b"]
    assert matrix.run(tmp_path, seed=1, pieces=Pieces(work), only=("mnist", "a"))["missing"] == 5
    lines = work.read_text(encoding="utf-8").splitlines()
    work.write_text("\n".join((*lines[1:], lines[0][:40])) + "\n", encoding="utf-8")
    found = matrix.run(tmp_path, pieces=Pieces(work))
    assert len(found["matrix"]) == 6
    assert sorted(measured) == ["a"] * 4 + ["b"] * 4  # b a fourth time where its line was cut
    assert said({**found, "absent": ["xgboost"]}).startswith("matrix: SHORT: 2 of 20 kinds of model (absent: xgboost).")
    many = [{**row, "kind": f"{row['kind']}{k}"} for row in found["matrix"] for k in range(10)]
    whole = {**found, "matrix": many, "absent": []}
    assert said(whole).startswith("matrix: MET. 20 of 20 kinds of model; 0 cells missing;")
    assert "SHORT: 2 cells missing" in said({**whole, "missing": 2})
    low = {"combined: below 0.9 of plain": ["a", "b"], "combined: below 0.9 of plain beyond chance": []}
    assert "MET. " in said({**whole, **low})
    assert "below 0.9 of plain: 2 (a; b), 0 by more than 2 standard errors" in said({**whole, **low})
    assert "SHORT: combined: below" in said({**whole, **low, "combined: below 0.9 of plain beyond chance": ["a"]})
    assert "SHORT: mean rate at 0.001" in said({**whole, "plain: mean rate at 0.001": 0.2})
    for name in ("membership_matrix", "membership_verdicts", "pieces"):
        sys.modules.pop(name, None)


def test_what_a_campaign_says(lira, tmp_path):
    """Kept results read MET; one figure beyond its limit, or a draw that is missing, reads SHORT and says which."""
    import json

    from membership_verdicts import verdicts
    from pieces import Pieces

    kept = json.loads((FOLDER / "results" / "membership-honesty.json").read_text(encoding="utf-8"))["rows"]
    assert [line.split(": ")[1][:4] for line in verdicts(kept)] == ["MET."] * 5
    for name, place, changed in (
        ("planted", 2, {"named and planted, mean": 8.9}),
        ("planted", 2, {"draws": 99}),
        ("planted", 2, {"named and not planted": 60}),
        ("false discoveries", 0, {"false discovery rate": 0.06}),
        ("nulls", 0, {"area above": 400}),
        ("confounded", 0, {"uninformative": 2}),
        ("confounded", 1, {"uninformative": 18}),
    ):
        rows = [{**row, **(changed if k == place else {})} for k, row in enumerate(kept[name])]
        assert verdicts({name: rows})[0].startswith(f"{name}: SHORT: "), (name, changed)
    narrow = {**kept["coverage"], "groups": {"of one": {"draws": 500, "a": 0.9}}}
    assert verdicts({"coverage": narrow})[0].startswith("coverage: SHORT: least coverage 90.0%.")
    part = Pieces(tmp_path / "parts", (0, 2))
    part.run({"a": int, "b": int})
    assert part.unfinished
    rest = Pieces(tmp_path / "parts", (1, 2))
    assert (rest.run({"a": int, "b": int}), rest.unfinished) == ({"a": 0, "b": 0}, False)
    for name in ("membership_verdicts", "pieces"):
        sys.modules.pop(name, None)


def test_the_service_game_goes_on_row_by_row(lira, tmp_path, monkeypatch):
    import membership_service as game

    played = []

    def one(name, seed, sides, fit, references):
        played.append((name, seed))
        ways = {
            "full access": 0.8,
            "API, labels only": 0.9,
            **dict.fromkeys(game.CHOSEN.values(), 0.6),
            game.CHOSEN[name]: 0.7,
        }
        return {"training": name, "seed": seed, **{way: {"rate at 1 %": rate} for way, rate in ways.items()}}

    monkeypatch.setattr(game, "_one", one)
    game.run(1, 20, work=tmp_path / "rows")
    found = game.run(2, 20, work=tmp_path / "rows")
    assert len(played) == len(set(played)) == 6
    assert [(row["seeds"], row["share of full access"]) for row in found["means"]] == [(2, 0.875)] * 3
    sys.modules.pop("membership_service", None)


def test_one_kind_that_is_measured_again_replaces_its_own_row(lira):
    import membership

    kept = [{"kind": "tree", "draws": 1}, {"kind": "network", "draws": 1}]
    found = membership.replaced(kept, [{"kind": "tree", "draws": 2}])
    assert found == [{"kind": "tree", "draws": 2}, {"kind": "network", "draws": 1}]
