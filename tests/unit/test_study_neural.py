"""Neural targets that are not ours: Hugging Face classifiers of tokens, pictures and texts, torch modules by name."""

import numpy as np
import pytest

import tacit
from command import Command
from tacit import BadInput
from tacit.study.models import predictor

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.needs("transformers"), pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def bert(labels=3):
    import transformers as hf

    torch.manual_seed(0)
    config = hf.BertConfig(**SMALL, vocab_size=40, max_position_embeddings=12, num_labels=labels, pad_token_id=0)
    return hf.BertForSequenceClassification(config)


def tokens(count):
    rng = np.random.default_rng(count)
    found = rng.integers(1, 40, size=(count, 10))
    return np.where(np.arange(10) < rng.integers(3, 11, size=(count, 1)), found, 0)


def test_token_classifier_with_padding_masked():
    model, x = bert(), tokens(7)
    model.train()
    found = predictor(model)(x.astype(np.float32))
    assert model.training
    model.eval()
    for row, answer in zip(x, found, strict=True):
        ids = torch.as_tensor(row[row > 0])[None]
        np.testing.assert_allclose(model(input_ids=ids).logits.detach()[0], answer, atol=1e-5)


def test_a_fine_tuned_classifier_is_attacked():
    model = bert(2)
    x, y = tokens(120), np.random.default_rng(1).integers(0, 2, 120)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(60):
        optimizer.zero_grad()
        ids = torch.as_tensor(x[:60])
        model(input_ids=ids, attention_mask=(ids != 0).long(), labels=torch.as_tensor(y[:60])).loss.backward()
        optimizer.step()
    evidence = tacit.attack(model, (x[:60], y[:60]), (x[60:], y[60:]), rng=1)
    assert evidence.measurements[0].auc.lower > 0.6
    with pytest.raises(BadInput, match="gives logits"):
        tacit.attack(model, (x[:60], y[:60]), (x[60:], y[60:]), attacks=["white-box-gradients"], rng=1)


def test_picture_classifier():
    import transformers as hf

    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, image_size=8, patch_size=4, num_labels=3)).eval()
    x = RNG.normal(size=(5, 3, 8, 8))
    expected = model(pixel_values=torch.as_tensor(x, dtype=torch.float32)).logits.detach()
    np.testing.assert_allclose(predictor(model)(x), expected, atol=1e-5)


class Tokenizer:
    """Words by their length: enough of a tokenizer to be called like one."""

    def __call__(self, texts, *, padding, truncation, return_tensors):
        from transformers import BatchEncoding

        rows = [[min(len(word), 39) for word in text.split()][:10] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return BatchEncoding({"input_ids": ids, "attention_mask": (ids != 0).long()})


class Pipeline:
    def __init__(self):
        self.model, self.tokenizer = bert(2).eval(), Tokenizer()


def test_texts_through_a_pipeline():
    words = np.array(["a", "bb", "ccc", "dddd", "eeeee"])
    texts = np.array([" ".join(RNG.choice(words, size=6)) + f" {'x' * (k % 30)}y" for k in range(80)])
    labels = RNG.integers(0, 2, 80)
    pipeline = Pipeline()
    one = predictor(pipeline)(texts[:1])
    np.testing.assert_allclose(predictor(pipeline)(texts)[:1], one, atol=1e-5)
    evidence = tacit.attack(pipeline, (texts[:40], labels[:40]), (texts[40:], labels[40:]), rng=1)
    assert {"loss", "blind baseline"} <= {item.attack for item in evidence.measurements}


@pytest.mark.parametrize("words", [["no", "yes"], ["yes", "no"]])
def test_columns_have_the_names_of_the_configuration(words):
    """Words were taken for columns in sorted order, whatever the model calls its own; references may have no names."""
    texts = np.array(["".join("ab"[(k >> b) & 1] * 3 for b in range(7)) + " c" * (k % 5) for k in range(80)])
    labels = np.array(words)[RNG.integers(0, 2, 80)]
    named, plain = Pipeline(), Pipeline()
    named.model.config.id2label = dict(enumerate(words))
    sides = (texts[:40], labels[:40]), (texts[40:], labels[40:])
    told = [(x, np.array([words.index(word) for word in y])) for x, y in sides]
    game = {"fit": lambda x, y, rng: plain, "references": 2, "attacks": ["loss", "rmia"], "rng": 1}
    found, numbers = (tacit.attack(named, *given, **game) for given in (sides, told))
    assert [item.auc.value for item in found.attacks] == [item.auc.value for item in numbers.attacks]


def test_pipelines_that_are_asked_about_more_than_a_record():
    class ZeroShot(Pipeline):
        task = "zero-shot-classification"

        def __call__(self, texts):
            raise AssertionError

    with pytest.raises(BadInput, match="zero-shot-classification is not asked about a record alone"):
        predictor(ZeroShot())
    with pytest.raises(BadInput, match="scores by the names of classes"):
        predictor(lambda x: [[{"label": "a", "score": 0.5}]] * len(x))(np.zeros((3, 2)))


def test_pipelines_that_are_made_by_their_class_have_no_task():
    """TextClassificationPipeline(model=..., tokenizer=...) was refused as a pipeline for nothing."""
    kinds = [type(name, (Pipeline,), {"task": ""}) for name in ("TextClassificationPipeline", "TranslationPipeline")]
    assert predictor(kinds[0]())(np.array(["a b", "c"])).shape == (2, 2)
    with pytest.raises(BadInput, match="A pipeline for TranslationPipeline is not asked"):
        predictor(kinds[1]())


def test_texts_that_differ_without_any_model_are_seen():
    texts = np.array([f"old news of day {k}" for k in range(60)] + [f"new story of day {k}" for k in range(60)])
    labels = np.zeros(120, dtype=int)
    flat = lambda x: np.full((len(x), 2), 0.5)  # noqa: E731
    evidence = tacit.attack(flat, (texts[:60], labels[:60]), (texts[60:], labels[60:]), rng=1)
    assert evidence.verdict == "uninformative"


def test_a_torch_module_by_name(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_network.py").write_text("import torch\nnet = torch.nn.Linear(4, 3)\n", encoding="utf-8")
    for side in ("members", "others"):
        np.savez(tmp_path / f"{side}.npz", x=RNG.normal(size=(60, 4)), y=RNG.integers(0, 3, 60))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--model", "my_network:net", "--members", "members.npz", "--nonmembers", "others.npz", "--seed", "1"]
    status, out, err = Command(capsys, monkeypatch)("attack", *words, "--attacks", "loss,gradient-norm")
    assert status == 0, err
    assert "gradient-norm" in out
