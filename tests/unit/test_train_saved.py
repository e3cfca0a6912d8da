"""A trained model comes back from its folder: the weights that its evidence is about, and no others."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tacit
from tacit import BadInput, Column, Schema
from tacit.train import Trained
from tacit.train.recipe.networks import Shortened
from tacit.train.weights import Form, filled, read_weights, write_weights

SCHEMA = Schema(
    (Column("age", range=(0, 120)), Column("job", "category", words=("clerk", "nurse")),
     Column("ill", "category", words=("no", "yes"))), label="ill",
)  # fmt: skip
PEOPLE = pd.DataFrame({"age": np.arange(60.0), "job": ["clerk", "nurse", "cook"] * 20, "ill": ["no", "yes"] * 30})
PLAN = tacit.Plan(60, 0.5, 3, 1.0)
ARRAYS = (torch.linspace(0, 1, 120).reshape(60, 2), torch.arange(60) % 2)


def own():
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.fixture(scope="module", params=["linear", "mlp"])
def named(request, tmp_path_factory):
    trained = tacit.fit(request.param, PEOPLE, PLAN, schema=SCHEMA, rng=1)
    return trained, trained.save(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def folder(tmp_path):
    return tacit.fit(own(), ARRAYS, PLAN, rng=1).save(tmp_path / "model")


def test_a_model_by_name_is_built_again(named):
    trained, folder = named
    found = Trained.load(folder)
    assert np.array_equal(found.predict_proba(PEOPLE), trained.predict_proba(PEOPLE))
    assert np.array_equal(found.predict(PEOPLE.drop(columns="ill")), trained.predict(PEOPLE))
    assert (found.schema, found.history, found.model.training) == (SCHEMA, (), False)
    assert found.evidence.upper == trained.evidence.upper
    assert repr(found).startswith("Trained(Sequential, 0 steps, epsilon ")


def test_what_was_loaded_is_saved_again_and_attacked(named, tmp_path):
    _, folder = named
    again = Trained.load(Trained.load(folder).save(tmp_path / "again"), None)
    assert again.predict(PEOPLE).tolist() == Trained.load(folder).predict(PEOPLE).tolist()
    found = tacit.bracket(again, PEOPLE, nonmembers=PEOPLE.assign(age=PEOPLE.age + 60.5), references=0, rng=1)
    assert found.upper == again.evidence.upper
    assert found.measurements


@pytest.mark.parametrize("given", [own, own()], ids=["a function", "a module"])
def test_a_model_of_ones_own_is_given(folder, given):
    found = Trained.load(folder, given)
    assert all(torch.equal(part, found.model.state_dict()[name])
               for name, part in load_file(folder / "model.safetensors").items())  # fmt: skip
    assert set(found.predict(ARRAYS[0])) <= {0, 1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "Give model"),
        (lambda: nn.Linear(2, 2), "does not hold the weights of this model"),
        (lambda: 3, "must be a torch module"),
        (lambda: own().double(), "about other weights"),
    ],
)
def test_another_model_is_refused(folder, given, said):
    with pytest.raises(BadInput, match=said):
        Trained.load(folder, given)


def test_a_folder_that_is_taken_is_refused_in_the_words_of_python(named):
    with pytest.raises(BadInput, match=r"finished run; a folder belongs to one run\. Give another folder\.$"):
        named[0].save(named[1])


def test_a_model_is_not_given_where_the_file_names_it(named):
    with pytest.raises(BadInput, match="Leave model out"):
        Trained.load(named[1], own)


def changed(path):
    tensors = load_file(path)
    save_file({name: part + 1e-6 for name, part in tensors.items()}, path)


@pytest.mark.parametrize("without", ["manifest.json", None])
def test_other_weights_are_refused_even_without_the_manifest(folder, without):
    """A folder may be copied in parts: the evidence itself says which weights it is about."""
    if without:
        (folder / without).unlink()
    changed(folder / "model.safetensors")
    with pytest.raises(BadInput, match="exchanged"):
        Trained.load(folder, own)


def test_evidence_knows_its_parameters_without_the_hash_of_a_file(folder):
    changed(folder / "model.safetensors")
    (folder / "manifest.json").unlink()
    path = folder / "evidence.json"
    evidence = json.loads(path.read_text())
    evidence["provenance"].pop("weights_sha256")
    path.write_text(json.dumps(evidence))
    with pytest.raises(BadInput, match="about other weights"):
        Trained.load(folder, own)


@pytest.mark.parametrize(
    "words", [("yes", "no"), ("no", "yes", "perhaps"), None], ids=["in another order", "more", "no schema"]
)
def test_a_schema_that_would_name_other_answers_is_refused(named, words, tmp_path):
    """Its words name what the model answers with; it is told without the manifest, too."""
    folder = Trained.load(named[1]).save(tmp_path / "copy")
    (folder / "manifest.json").unlink()
    (folder / "schema.toml").unlink()
    if words is not None:
        SCHEMA.with_(columns=(*SCHEMA.columns[:2], Column("ill", "category", words=words))).save(folder / "schema.toml")
    with pytest.raises(BadInput, match=r"schema\.toml is not"):
        Trained.load(folder)


def test_a_schema_that_was_found_to_be_public_is_the_same(named, tmp_path):
    folder = Trained.load(named[1]).save(tmp_path / "copy")
    (folder / "manifest.json").unlink()
    SCHEMA.with_(columns=tuple(replace(one, public=False) for one in SCHEMA.columns)).save(folder / "schema.toml")
    assert np.array_equal(Trained.load(folder).predict_proba(PEOPLE), Trained.load(named[1]).predict_proba(PEOPLE))


@pytest.mark.parametrize("outputs", [3, 5])
def test_a_model_with_another_number_of_outputs_than_classes_has_no_words_for_them(outputs):
    words = SCHEMA.with_(columns=(*SCHEMA.columns[:2], Column("ill", "category", words=("no", "yes", "no idea", "?"))))
    model = nn.Linear(SCHEMA.width, outputs)
    with pytest.raises(BadInput, match=f"gives {outputs} numbers of a record; the schema has 4 classes"):
        Trained(model, tacit.Evidence(subject=""), (), words).predict(PEOPLE)


def test_answers_that_are_no_numbers_are_refused():
    """They counted as the first class."""
    model = own()
    torch.nn.init.constant_(model[2].bias, float("nan"))
    with pytest.raises(BadInput, match="what is no finite number"):
        Trained(model, tacit.Evidence(subject=""), ()).predict(ARRAYS[0])


@pytest.mark.parametrize("broken", ["no folder", "no weights", "no evidence", "cut short", "other schema"])
def test_a_folder_that_is_not_whole(named, broken, tmp_path):
    folder = Trained.load(named[1]).save(tmp_path / "copy")
    if broken == "no folder":
        folder = tmp_path / "nowhere"
    elif broken == "no weights":
        (folder / "model.safetensors").unlink()
    elif broken == "no evidence":
        (folder / "evidence.json").unlink()
    elif broken == "cut short":
        (folder / "manifest.json").unlink()
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-4])
    else:
        (folder / "manifest.json").unlink()
        wider = (*SCHEMA.columns, Column("pay", range=(0, 1)))
        SCHEMA.with_(columns=wider).save(folder / "schema.toml")
    with pytest.raises(BadInput):
        Trained.load(folder)


FORM = {"schema": "tacit.model/1", "kind": "linear", "features": 4, "classes": 2, "norm_bound": None}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "no json",
        "[1]",
        "[" * 100_000,
        json.dumps({**FORM, "schema": "tacit.model/2"}),
        json.dumps({**FORM, "kind": "os.system"}),
        json.dumps({**FORM, "kind": ["linear"]}),
        json.dumps({**FORM, "features": 10**12}),
        json.dumps({**FORM, "features": 2.5}),
        json.dumps({**FORM, "classes": True}),
        json.dumps({**FORM, "classes": 0}),
        json.dumps({**FORM, "norm_bound": -1.0}),
        json.dumps({**FORM, "norm_bound": float("nan")}),
        json.dumps({**FORM, "more": 1}),
        json.dumps({"schema": "tacit.model/1"}),
    ],
)
def test_a_header_that_no_version_wrote_names_no_model(header):
    assert Form.read(None if header is None else {"tacit": header}) is None


def test_a_header_may_not_ask_for_all_memory(tmp_path):
    """Its model has a petabyte of weights; they have no memory until those of the file are put in."""
    path = tmp_path / "model.safetensors"
    write_weights(nn.Linear(4, 2), path, Form("linear", 2**24, 2**24))
    tensors, form = read_weights(path)
    with pytest.raises(BadInput, match="does not hold the weights"):
        filled(form.build(), path, tensors)


@pytest.mark.parametrize("form", [Form("linear", 4, 3), Form("mlp", 2, 2), Form(None, 5, 2), Form("linear", 4, 2, 1.5)])
def test_the_header_keeps_the_form(form, tmp_path):
    model = (form.build() or nn.Linear(5, 2)).to_empty(device="cpu")
    write_weights(model, tmp_path / "a.safetensors", form)
    tensors, read = read_weights(tmp_path / "a.safetensors")
    assert read == form
    assert tensors.keys() == model.state_dict().keys()
    assert isinstance(model, Shortened) == (form.norm_bound is not None)


def test_rows_are_shortened_as_in_training():
    model = Shortened(2, 2, 1.5)
    with torch.no_grad():
        assert torch.allclose(model(torch.tensor([[30.0, 40.0]])), model(torch.tensor([[0.9, 1.2]])))
        assert not torch.allclose(model(torch.tensor([[0.3, 0.4]])), model(torch.tensor([[0.9, 1.2]])))


def test_models_that_answer_with_an_object_or_with_one_number():
    class Wrapped(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(2, width)

        def forward(self, x):
            return type("Output", (), {"logits": self.layer(x)})()

    evidence = tacit.Evidence(subject="")
    shares = Trained(Wrapped(3), evidence, ()).predict_proba(ARRAYS[0])
    assert shares.shape == (60, 3)
    assert np.allclose(shares.sum(1), 1)
    with pytest.raises(BadInput, match="one number per class"):
        Trained(Wrapped(1), evidence, ()).predict(ARRAYS[0])
