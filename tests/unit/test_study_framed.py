"""Data frames wherever records are taken: pandas, polars and Arrow give what arrays give."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tacit
from tacit import BadInput, Column, Evidence, Schema
from tacit.core import Estimate, Exposure
from tacit.data.codec import Codec
from tacit.study import framed
from tacit.study.trained import _records, _together

KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def people(count=200, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, count)
    job = rng.choice(["clerk", "nurse"], count)
    ill = np.where(age + 20 * (job == "nurse") + rng.normal(size=count) * 5 > 60, "yes", "no")
    frame = pd.DataFrame({"age": age, "pay": rng.normal(size=count), "job": job, "ill": ill})
    frame.loc[:1, "age"] = np.nan
    return frame


SCHEMA = Schema(
    (
        Column("age", range=(0, 120)),
        Column("job", "category", words=("clerk", "nurse")),
        Column("ill", "category", words=("no", "yes")),
    ),
    label="ill",
)
PLAN = tacit.Plan(200, 0.2, 60, 0.5)


@pytest.fixture(scope="module")
def trained():
    return tacit.fit("linear", people(), PLAN, schema=SCHEMA, delta=1e-3, validation=people(100, 1), rng=1)


def test_a_frame_is_trained_on_and_predicted_for(trained):
    assert trained.evidence.utility["accuracy"] > 0.8
    other = people(50, 2)
    assert set(trained.predict(other.drop(columns="ill"))) == {"no", "yes"}
    assert np.allclose(trained.predict_proba(other).sum(1), 1.0)
    for kind in KINDS.values():
        assert np.array_equal(trained.predict(kind(other)), trained.predict(other))
    assert np.array_equal(trained.predict(SCHEMA.encode(other)[0]), trained.predict(other))
    assert "read off the data" not in " ".join(trained.evidence.not_covered)
    assert repr(trained).startswith("Trained(Sequential, 60 steps, epsilon ")


def test_a_frame_and_its_encoding_train_the_same_model(trained):
    from tacit.train.recipe.networks import learning_rate, network

    torch = pytest.importorskip("torch")
    model = network("linear", SCHEMA.width, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate(PLAN))
    arrays = tacit.fit(model, SCHEMA.encode(people()), PLAN, optimizer=optimizer, delta=1e-3, rng=1)
    for one, two in zip(trained.model.parameters(), arrays.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_label_alone_reads_the_schema_off_the_data_and_says_so():
    found = tacit.fit("mlp", people(), PLAN, schema="ill", delta=1e-3, rng=1)
    assert found.schema.derived == ("age", "pay", "job", "ill")
    assert any("age, pay, job, ill: they were read off the data" in text for text in found.evidence.not_covered)


def test_what_was_trained_is_saved_and_reported(trained, tmp_path):
    pytest.importorskip("altair")
    folder = trained.save(tmp_path / "kept")
    assert sorted(path.name for path in folder.iterdir()) == [
        "evidence.json",
        "manifest.json",
        "model.safetensors",
        "schema.toml",
    ]
    assert Schema.read(folder / "schema.toml") == SCHEMA
    assert trained.report(tmp_path / "page.html").path.is_file()


@pytest.mark.parametrize("records", [{"age": 1}, [[0.0, 1.0]], [0.0] * SCHEMA.width, "nobody", np.zeros((2, 99))])
def test_records_that_a_trained_model_cannot_read_are_named(trained, records):
    """Errors of torch and numpy came out."""
    with pytest.raises(BadInput, match=r"^Records must be"):
        trained.predict(records)


def test_users_of_a_schema_are_the_unit_of_privacy():
    frame = people().assign(who=np.arange(200) // 2)
    schema = SCHEMA.with_(unit="who")
    with pytest.raises(BadInput, match="number of users differs"):
        tacit.fit("linear", frame, tacit.Plan(200, 0.2, 10, 1.0), schema=schema, delta=1e-3, rng=1)
    found = tacit.fit("linear", frame, tacit.Plan(100, 0.2, 10, 1.0), schema=schema, delta=1e-3, rng=1)
    assert found.evidence.upper.unit == "user"


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_on_a_trained_model_takes_frames(trained, kind):
    inside, outside = KINDS[kind](people()), KINDS[kind](people(100, 1))
    found = tacit.attack(trained, inside, outside, rng=1)
    (x, y), (other_x, other_y) = SCHEMA.encode(inside), SCHEMA.encode(outside)
    plain = tacit.attack(trained.model, (x, y), (other_x, other_y), rng=1)
    assert [item.members for item in found.measurements] == [item.members for item in plain.measurements]
    assert abs(found.measurements[0].auc.value - plain.measurements[0].auc.value) < 0.01


def pipeline():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    assert sklearn
    columns = make_column_transformer(
        (SimpleImputer(), ["age", "pay"]), (OneHotEncoder(handle_unknown="ignore"), ["job"])
    )
    return make_pipeline(columns, LogisticRegression())


def test_a_pipeline_with_named_columns_is_attacked_and_bracketed():
    frame, others = people(), people(100, 1)
    fitted = pipeline().fit(frame.drop(columns="ill"), frame["ill"])
    pairs = [(part.drop(columns="ill"), part["ill"]) for part in (frame, others)]
    found = tacit.attack(fitted, *pairs, references=4, rng=1)
    assert {"lira", "rmia"} <= {item.attack for item in found.attacks}
    assert tacit.attack(fitted, frame, others, schema="ill", references=4, rng=1).measurements == found.measurements
    both = tacit.bracket(fitted, frame, schema="ill", references=2, runs=16, isolation="none", rng=1)
    assert both.verdict in ("no claim", "uninformative")
    assert both.utility["test accuracy"] > 0.8


def test_an_audit_gives_frames_to_a_fit_that_takes_them():
    seen = set()

    def fit(x, y, rng):
        seen.add(tuple(x.columns))
        assert x["job"].isin(["clerk", "nurse"]).all()
        return lambda records: np.tile([0.4, 0.6], (len(records), 1)) + 0.01 * rng.random((len(records), 1)) * [1, -1]

    tacit.audit(fit, people(40), claim=(5.0, 1e-5), schema="ill", runs=16, isolation="none", rng=1)
    assert seen == {("age", "pay", "job")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_codec_gives_back_what_it_was_given(kind):
    frame = people(30).assign(
        whole=np.arange(30), yes=np.arange(30) % 2 == 0, kind=pd.Categorical(["a", "b", "c"] * 10)
    )
    native = KINDS[kind](frame)
    codec = Codec.of(native)
    x = codec.encode(native)
    assert np.isfinite(x).all()
    again = codec.decode(x)
    assert type(again) is type(native)
    back = again if kind == "pandas" else again.to_pandas()
    pd.testing.assert_frame_equal(back.reset_index(drop=True), (native if kind == "pandas" else native.to_pandas()))


def test_a_codec_keeps_whole_numbers_with_gaps():
    gaps = pd.array([1, None, 3], dtype="Int64"), pd.array([True, None, False], dtype="boolean")
    frame = pd.DataFrame({"whole": gaps[0], "yes": gaps[1]})
    codec = Codec.of(frame)
    pd.testing.assert_frame_equal(codec.decode(codec.encode(frame)), frame)
    with pytest.raises(BadInput, match="named by texts"):
        Codec.of(pd.DataFrame(np.zeros((3, 2))))


def test_duplicates_among_outsiders_of_a_table_are_counted_and_left_out(trained):
    frame = people()
    found = tacit.attack(trained, frame, pd.concat([people(100, 1), frame[:7]]), rng=1)
    assert found.provenance["nonmembers_equal_to_a_member"] >= 7


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tacit.fit("linear", people(), PLAN), "needs a schema"),
        (lambda: tacit.fit("linear", people(), PLAN, schema="sick"), "no column 'sick'"),
        (lambda: tacit.fit("tree", people(), PLAN, schema=SCHEMA), "'tree' is not known"),
        (lambda: tacit.fit("linear", SCHEMA.encode(people()), PLAN), "goes with a data frame"),
        (
            lambda: tacit.fit("linear", SCHEMA.encode(people()), PLAN, schema=SCHEMA),
            "goes with a data frame, got tuple",
        ),
        (lambda: tacit.fit("linear", people().drop(columns="age"), PLAN, schema=SCHEMA), "no column 'age'"),
        (lambda: tacit.attack(lambda x: x, people(), people(9, 1)), "name of its label column"),
        (lambda: tacit.attack(lambda x: x, people(), people(9, 1), schema="sick"), "no column 'sick'"),
        (lambda: tacit.attack(lambda x: x, people(), people(9)[["ill"]], schema="ill"), "the same columns"),
        (lambda: tacit.fit("linear", people().assign(ill="maybe"), PLAN, schema=SCHEMA), "label that the schema knows"),
    ],
)
def test_a_mistake_with_frames_is_one_sentence(call, said):
    with pytest.raises(BadInput, match=said):
        call()


def test_a_model_is_saved_with_its_evidence_or_not_at_all_and_never_beside_another(tmp_path, monkeypatch):
    """What a kill, or a full disk, between weights and evidence left was a new model beside old evidence."""
    import torch

    from tacit.core import BadInput, Evidence, NotFinished
    from tacit.loss import Plan
    from tacit.train import fit

    data = (torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
    trained = [fit(torch.nn.Linear(3, 2), data, Plan(40, 0.5, 2, noise), rng=1) for noise in (4.0, 0.5)]

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Evidence, "save", kill)
        with pytest.raises(Killed):
            trained[0].save(tmp_path / "kept")
    assert not list(tmp_path.iterdir())
    kept = trained[0].save(tmp_path / "kept")
    assert sorted(path.name for path in kept.iterdir()) == ["evidence.json", "manifest.json", "model.safetensors"]
    before = (kept / "model.safetensors").read_bytes()
    with pytest.raises(BadInput, match="a folder belongs to one run"):
        trained[1].save(kept)
    assert (kept / "model.safetensors").read_bytes() == before
    other = trained[1].save(tmp_path / "other")
    (kept / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(BadInput, match="not the one that this evidence was written with"):
        Evidence.load(kept / "evidence.json")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(NotFinished, match=r"model\.safetensors cannot be written"):
        trained[0].save(tmp_path / "full")
    assert not (tmp_path / "full").exists()


def test_a_wide_table_does_not_fill_the_page_with_names():
    """What was read off 200 columns is one line of evidence; the schema names all of them."""
    wide = pd.DataFrame({f"gene{k}": np.arange(40.0) + k for k in range(200)} | {"ill": ["yes", "no"] * 20})
    found = tacit.fit("linear", wide, tacit.Plan(40, 0.5, 1, 3.0), schema="ill", rng=1).evidence.not_covered
    (line,) = [text for text in found if text.startswith("kind, range or words")]
    assert "gene29 and 171 more: they were read off the data" in line


def shown(*rows):
    """Evidence that names these records."""
    sure = Estimate(0.9, 0.5, 1.0, 0.95, 16)
    return Evidence(subject="", exposures=tuple(Exposure(row, 0.9, sure) for row in rows))


def test_records_are_named_by_their_rows_in_the_frames(monkeypatch):
    """Records without a known label are left out: everybody behind them was named for somebody else."""
    inside, outside = people(), people(seed=1)
    inside.loc[:9, "ill"] = "not known"
    outside.loc[[0, 5], "ill"] = None
    seen = {}

    def attack(target, members, nonmembers, *, groups, **_):
        seen["groups"] = groups
        return shown(0, 57, len(members[1]), len(members[1]) + 4)

    monkeypatch.setattr(framed.membership, "attack", attack)
    monkeypatch.setattr(framed.bracketing, "bracket", lambda target, data, *, groups, **_: shown(0, 57))
    group = np.arange(400)
    found = tacit.attack(len, inside, outside, schema=SCHEMA, groups=group)
    assert [item.record for item in found.exposures] == [10, 67, 201, 206]
    assert found.provenance["records_without_a_known_label"] == 12
    assert seen["groups"].tolist() == [*range(10, 200), *(row for row in range(200, 400) if row not in (200, 205))]
    tacit.attack(len, inside, outside, schema=SCHEMA, groups=group[:388])
    assert seen["groups"].tolist() == group[:388].tolist()
    halves = tacit.bracket(len, inside, schema=SCHEMA)
    assert [item.record for item in halves.exposures] == [10, 67]


def test_a_trained_model_names_records_by_their_rows_too():
    inside, outside = people(30), people(20, seed=1)
    inside.loc[:4, "ill"] = "not known"
    outside.loc[3, "ill"] = "not known"
    parts = [_records(part, SCHEMA) for part in (inside, outside)]
    whole = _together(*parts, None, len(inside))
    assert whole.rows.tolist() == [*range(5, 30), *(30 + row for row in range(20) if row != 3)]


@pytest.mark.parametrize("as_file", [False, True])
def test_a_classifier_with_a_schema_is_attacked_and_audited_on_the_frames_that_it_was_fitted_to(as_file, tmp_path):
    """It reads frames by its own schema, whose words for labels it answers with: numbers in the frame were refused."""
    pytest.importorskip("sklearn")
    from tacit.erm import PrivateLogisticRegression

    schema = SCHEMA.with_(columns=(*SCHEMA.columns[:-1], Column("ill", "category", words=("0", "1"))))
    (tmp_path / "people.schema.toml").write_text(schema.to_toml())
    inside, others = (frame.assign(ill=(frame.ill == "yes").astype(int)) for frame in (people(120), people(120, 1)))
    inside.loc[[3, 4], "ill"] = 7  # no class of the schema
    own = str(tmp_path / "people.schema.toml") if as_file else schema
    private = PrivateLogisticRegression(epsilon=2.0, schema=own, random_state=0).fit(inside)
    found = tacit.attack(private, inside, others, references=2, rng=1)
    assert found.provenance["records_without_a_known_label"] == 2
    pairs = [(frame.drop(columns="ill"), frame.ill) for frame in (inside, others)]
    assert tacit.attack(private, *pairs, references=2, rng=1).measurements == found.measurements
    for given in ("ill", schema):
        assert tacit.attack(private, inside, others, schema=given, references=0, rng=1).measurements
    with pytest.raises(BadInput, match="Leave schema out"):
        tacit.attack(private, inside, others, schema=SCHEMA)
    both = tacit.bracket(private, inside, nonmembers=others, references=2, runs=16, isolation="none", rng=1)
    assert both.measurements
    assert both.demonstrations
    with pytest.raises(BadInput, match="label that the schema knows"):
        tacit.attack(private, inside.assign(ill=8), others)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_a_model_does_not_read_is_no_sign_of_membership(kind):
    """Row numbers beside the columns of the schema told members from outsiders, so nothing could be relied on."""
    pytest.importorskip("sklearn")
    from tacit.erm import PrivateLogisticRegression

    inside, others = (KINDS[kind](people(120, k).assign(row=np.arange(120) + 120 * k)) for k in (0, 1))
    private = PrivateLogisticRegression(epsilon=2.0, schema=SCHEMA, random_state=0).fit(inside)
    found = tacit.attack(private, inside, others, references=0, rng=1)
    assert next(control for control in found.controls if control.name == "blind baseline").passed
