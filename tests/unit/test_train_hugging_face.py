"""Hugging Face's Trainer with private steps."""

import shutil

import pytest
import torch

from tacit.core import BadInput, BudgetExceeded, Mismatch
from tacit.events import Laplace
from tacit.loss import Plan
from tacit.train import private

pytestmark = [
    pytest.mark.needs("transformers"),
    pytest.mark.needs("accelerate"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,
]
PLAN = Plan(40, 0.25, 6, 1.0)
SECRETS = ("loss", "train_loss")


class Sentences(torch.utils.data.Dataset):
    def __init__(self, *, words: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(3, 50, (40, 7), generator=generator)
        self.words = words

    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int) -> dict:
        ids = self.ids[row]
        return {"input_ids": ids, "labels": ids if self.words else ids[0] % 2}


def model(*, words: bool) -> torch.nn.Module:
    import transformers as hf

    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = hf.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2, pad_token_id=0, num_labels=2)
    made = hf.GPT2LMHeadModel(config) if words else hf.GPT2ForSequenceClassification(config)
    for module in made.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made


def arguments(folder: object, **more: object) -> object:
    from transformers import TrainingArguments

    options = {"output_dir": str(folder), "report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    return TrainingArguments(**{**options, **more}, learning_rate=0.1, optim="sgd")


def flat(net: torch.nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in net.parameters()])


@pytest.mark.parametrize("words", [True, False])
def test_the_trainer_takes_the_steps_of_the_three_line_loop(tmp_path, words: bool) -> None:
    from tacit.train import PrivateTrainer
    from tacit.train.adapters.hugging_face import per_example

    data = Sentences(words=words)
    seen = []

    def spy(net: torch.nn.Module, batch: dict) -> torch.Tensor:
        seen.append(len(batch["labels"]))
        return per_example(net, batch)

    net = model(words=words)
    rates = {"lr_scheduler_type": "constant"}
    trainer = PrivateTrainer(net, arguments(tmp_path, **rates), train_dataset=data, plan=PLAN, loss=spy, rng=3)
    found = trainer.train()
    assert found.global_step == PLAN.steps
    ours = model(words=words).train()
    step = private(ours, torch.optim.SGD(ours.parameters(), lr=0.1), PLAN, loss=spy, rng=3)
    for batch in step.batches(data):
        step(batch)
    torch.testing.assert_close(flat(net), flat(ours), rtol=1e-5, atol=1e-6)
    evidence = trainer.evidence(1e-3)
    assert evidence.claim.event == PLAN.event
    assert evidence.provenance["steps"] == PLAN.steps
    assert seen


def test_schedules_run_and_what_does_not_fit_is_refused(tmp_path) -> None:
    from tacit.train import PrivateTrainer

    data = Sentences(words=False)
    trainer = PrivateTrainer(model(words=False), arguments(tmp_path), train_dataset=data, plan=PLAN, rng=0)
    with pytest.raises(BadInput, match="Nothing was trained"):
        trainer.evidence(1e-3)
    trainer.train()
    assert trainer.lr_scheduler.get_last_lr()[0] == pytest.approx(0.0)
    with pytest.raises(BadInput, match="trained once"):
        trainer.train()
    with pytest.raises(BadInput, match="go on from"):
        PrivateTrainer(model(words=False), arguments(tmp_path), train_dataset=data, plan=PLAN).train(True)
    with pytest.raises(BadInput, match="precision"):
        PrivateTrainer(model(words=False), arguments(tmp_path, bf16=True), train_dataset=data, plan=PLAN)
    more = arguments(tmp_path, gradient_accumulation_steps=2)
    with pytest.raises(BadInput, match="accumulate by themselves"):
        PrivateTrainer(model(words=False), more, train_dataset=data, plan=PLAN)
    with pytest.raises(BadInput, match="train_dataset"):
        PrivateTrainer(model(words=False), arguments(tmp_path), plan=PLAN)


def budget(path):
    pytest.importorskip("sqlalchemy")
    from tacit.ledger import Ledger

    return Ledger.create(path, epsilon=50.0, delta=1e-6, unit="record")


def test_a_killed_run_goes_on_bit_for_bit(tmp_path) -> None:
    """Dropout and the learning rate's schedule included; paid under one key, and the secret is gone in the end."""
    from transformers import TrainerCallback

    from tacit.train import PrivateTrainer

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 5:
                raise KeyboardInterrupt

    def trainer(folder, account, **more):
        net = model(words=True)
        net.transformer.drop.p = 0.2
        saved = arguments(folder, save_strategy="steps", save_steps=2, save_only_model=False)
        return PrivateTrainer(net, saved, train_dataset=Sentences(words=True), plan=PLAN, rng=3, ledger=account, **more)

    account = budget(tmp_path / "a.db")
    torch.manual_seed(0)
    whole = trainer(tmp_path / "whole", budget(tmp_path / "b.db"))
    whole.train()
    torch.manual_seed(0)
    first = trainer(tmp_path / "killed", account, callbacks=[Kill()])
    with pytest.raises(KeyboardInterrupt):
        first.train()
    secret = tmp_path / "killed" / "_private.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.name.startswith("_")  # the Trainer leaves such files out of what it pushes to the hub
    assert all("secret" not in path.name for path in (tmp_path / "killed" / "checkpoint-4").iterdir())
    with pytest.raises(BadInput, match="Resume from checkpoint-4"):
        trainer(tmp_path / "killed", account).train(str(tmp_path / "killed" / "checkpoint-2"))
    shutil.copytree(tmp_path / "killed", tmp_path / "copy")
    torch.manual_seed(77)
    second = trainer(tmp_path / "killed", account)
    assert second.train(resume_from_checkpoint=True).global_step == PLAN.steps
    assert torch.equal(flat(second.model), flat(whole.model))
    assert second.evidence(1e-3).provenance["steps"] == PLAN.steps
    (entry,) = account.entries()
    assert (entry.event, entry.purpose) == (PLAN.event, "training")
    assert account.verify()
    assert not secret.exists()
    with pytest.raises(Mismatch, match="ended"):  # a copy of the secret does not make a second run of one charge
        trainer(tmp_path / "copy", account).train(resume_from_checkpoint=True)


def stopped_at(folder, step: int, **more) -> object:
    """A trainer that has saved every second step, and was interrupted after one of them."""
    from transformers import TrainerCallback

    from tacit.train import PrivateTrainer

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == step:
                raise KeyboardInterrupt

    saved = arguments(folder, **{"save_strategy": "steps", "save_steps": 2, **more})
    trainer = PrivateTrainer(
        model(words=False), saved, train_dataset=Sentences(words=False), plan=PLAN, rng=3, callbacks=[Kill()]
    )
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    return trainer


def going_on(folder, **more) -> object:
    from tacit.train import PrivateTrainer

    saved = arguments(folder, **{"save_strategy": "steps", "save_steps": 2, **more})
    return PrivateTrainer(model(words=False), saved, train_dataset=Sentences(words=False), plan=PLAN, rng=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type was .* 'linear'.* and is now .* 'cosine'"),
        ({"warmup_steps": 3}, "warmup_steps was 0 and is now 3"),
        ({"weight_decay": 0.1}, "weight_decay was 0.0 and is now 0.1"),
    ],
)
def test_a_run_goes_on_under_the_schedule_that_it_began_with(tmp_path, change, said: str) -> None:
    """Steps that were taken after the last checkpoint would be taken again, and otherwise."""
    stopped_at(tmp_path, 5)
    with pytest.raises(BadInput, match=said):
        going_on(tmp_path, **change).train(resume_from_checkpoint=True)
    assert going_on(tmp_path).train(resume_from_checkpoint=True).global_step == PLAN.steps


def test_a_run_that_is_killed_while_it_saves_goes_on(tmp_path, monkeypatch) -> None:
    """With one checkpoint at most, the Trainer has removed the earlier one when the later one is there."""
    from transformers import Trainer

    save, whole = Trainer._save_checkpoint, going_on(tmp_path / "whole")
    whole.train()

    def killed(self, *args) -> None:
        save(self, *args)
        if self.state.global_step == 4:
            raise KeyboardInterrupt

    first = going_on(tmp_path / "killed", save_total_limit=1)
    monkeypatch.setattr(Trainer, "_save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    monkeypatch.undo()
    assert not (tmp_path / "killed" / "checkpoint-2").exists()
    again = going_on(tmp_path / "killed", save_total_limit=1)
    again.train(resume_from_checkpoint=True)
    assert torch.equal(flat(again.model), flat(whole.model))
    assert not [path for path in (tmp_path / "killed").iterdir() if "secret" in path.name]


def test_settings_that_are_changed_after_the_trainer_was_made(tmp_path) -> None:
    trainer = going_on(tmp_path)
    trainer.args.max_steps, trainer.args.num_train_epochs, trainer.args.max_grad_norm = 30, 3, 1.0
    assert trainer.train().global_step == PLAN.steps
    assert trainer.args.max_grad_norm == 0.0
    trainer = going_on(tmp_path / "other")
    trainer.args.gradient_accumulation_steps = 2
    with pytest.raises(BadInput, match="accumulate by themselves"):
        trainer.train()


def test_a_budget_that_is_too_small_stops_the_trainer_before_its_first_step(tmp_path) -> None:
    from tacit.train import PrivateTrainer

    account = budget(tmp_path / "a.db")
    account.charge(Laplace(1 / 49.9), key="earlier")
    net = model(words=False)
    start = flat(net).clone()
    data = Sentences(words=False)
    trainer = PrivateTrainer(net, arguments(tmp_path), train_dataset=data, plan=PLAN, rng=0, ledger=account)
    with pytest.raises(BudgetExceeded):
        trainer.train()
    assert torch.equal(flat(net), start)
    assert len(account.entries()) == 1


def test_words_that_are_ignored_do_not_count() -> None:
    from tacit.train.adapters.hugging_face import IGNORED, per_example

    net = model(words=True).eval()
    ids = Sentences(words=True).ids[:2]
    labels = ids.clone()
    labels[0, 4:] = IGNORED
    labels[1] = IGNORED
    found = per_example(net, {"input_ids": ids, "labels": labels})
    logits = net(input_ids=ids[:1]).logits[0, :3]
    torch.testing.assert_close(found[0], torch.nn.functional.cross_entropy(logits, ids[0, 1:4]))
    assert found[1] == 0


def test_labels_that_name_no_output_count_as_ignored_ones() -> None:
    """Soundness rule 8: they stop nothing and move nothing."""
    from tacit.train.adapters.hugging_face import IGNORED, per_example

    ids = Sentences(words=True).ids[:3]
    labels = ids.clone()
    labels[0, 3], labels[1, 2:] = 10**6, -1
    ignored = torch.where((labels < 0) | (labels > 1000), IGNORED, labels)
    net = model(words=True).eval()
    found, expected = (per_example(net, {"input_ids": ids, "labels": some}) for some in (labels, ignored))
    assert torch.equal(found, expected)
    assert found.gt(0).all()
    found = per_example(model(words=False).eval(), {"input_ids": ids, "labels": torch.tensor([0, 2, -1])})
    assert found.gt(0).tolist() == [True, False, False]


class Eyes:
    """A tracker, as a callback that keeps all it is told."""

    def __new__(cls, told: list[dict]):
        from transformers import TrainerCallback

        class Told(TrainerCallback):
            def on_log(self, args, state, control, logs=None, **_):
                told.append(dict(logs))

        return Told()


@pytest.mark.needs("tensorboard")
def test_the_noiseless_loss_is_neither_printed_nor_saved(tmp_path, capfd) -> None:
    """Every loss of a step is told apart from all that left by its digits; the operator finds it in `history`."""
    from tacit.train import PrivateTrainer

    told: list[dict] = []
    data, held_out = Sentences(words=True), Sentences(words=True)
    every = {"logging_steps": 1, "save_strategy": "steps", "save_steps": 3, "report_to": ["tensorboard"]}
    args = arguments(tmp_path, **every, eval_strategy="steps", eval_steps=3)
    trainer = PrivateTrainer(
        model(words=True), args, train_dataset=data, eval_dataset=held_out, plan=PLAN, rng=3, callbacks=[Eyes(told)]
    )
    found = trainer.train()
    trainer.save_state()
    trainer.save_metrics("train", found.metrics)
    trainer.create_model_card()
    losses = [info.loss for info in trainer.history]
    assert len(losses) == PLAN.steps
    assert found.training_loss != found.training_loss
    assert not any(name in logs for logs in [*told, *trainer.state.log_history, found.metrics] for name in SECRETS)
    spent = [logs["epsilon_so_far"] for logs in told if "grad_norm" in logs]
    assert spent == [PLAN.spent(step, trainer.delta).epsilon for step in range(1, PLAN.steps + 1)]
    assert "eval_loss" in {name for logs in told for name in logs}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"trainer_state.json", "README.md", "train_results.json"} <= {path.name for path in files}
    assert any("tfevents" in path.name for path in files)
    left = "".join(path.read_text(errors="ignore") for path in files if path.suffix != ".safetensors")
    left += "".join(capfd.readouterr())
    for loss in [*losses, sum(losses) / len(losses)]:
        assert f"{loss:.4f}"[:5] not in left.replace("\n", " ")
    assert "train/loss" not in left
    assert "train/epsilon_so_far" in left


def test_a_loss_that_is_told_would_be_noticed(tmp_path, monkeypatch) -> None:
    """The same search finds it where the Trainer logs as ever."""
    from tacit.train import PrivateTrainer
    from tacit.train.adapters import hugging_face

    monkeypatch.setattr(hugging_face, "NOISELESS", ())
    monkeypatch.setattr(
        PrivateTrainer,
        "training_step",
        lambda self, net, inputs, *_: torch.tensor(self.private.gradients(inputs["batch"]).loss),
    )
    told: list[dict] = []
    net, args = model(words=True), arguments(tmp_path, logging_steps=1)
    PrivateTrainer(net, args, train_dataset=Sentences(words=True), plan=PLAN, rng=3, callbacks=[Eyes(told)]).train()
    assert all(any(name in logs for logs in told) for name in SECRETS)


def test_what_would_change_the_run_or_tell_of_it_is_refused(tmp_path) -> None:
    from tacit.train import PrivateTrainer

    data = Sentences(words=False)

    def refused(words: str, kind: type = PrivateTrainer, **options) -> None:
        more = options.pop("more", {})
        with pytest.raises(BadInput, match=words):
            kind(model(words=False), arguments(tmp_path, **more), train_dataset=data, plan=PLAN, **options)

    refused("for a whole batch", more={"label_smoothing_factor": 0.1})
    refused("for a whole batch", compute_loss_func=lambda *_: 0)
    refused("for a whole batch", type("Own", (PrivateTrainer,), {"compute_loss": lambda *_, **__: 0}))
    refused("start the run again", more={"auto_find_batch_size": True})
    trainer = PrivateTrainer(
        model(words=False), arguments(tmp_path), train_dataset=data, eval_dataset=data, plan=PLAN, rng=1
    )
    with pytest.raises(BadInput, match="on the training data"):
        trainer.evaluate()
    part = torch.utils.data.Subset(data, [0, 1])
    for given in (data, {"train": data}, part, torch.utils.data.ConcatDataset([part])):
        with pytest.raises(BadInput, match="on the training data"):
            trainer.evaluate(given)
    with pytest.raises(BadInput, match="on the training data"):
        trainer.predict(part)
    trainer.eval_dataset = {"held out": Sentences(words=False), "train": data}
    with pytest.raises(BadInput, match="on the training data"):
        trainer.evaluate()
    trainer.train()
    with pytest.raises(BadInput, match="trained once"):
        next(iter(trainer.get_train_dataloader()))


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8"])
def test_the_precision_that_accelerate_was_launched_with_is_refused(tmp_path, monkeypatch, precision: str) -> None:
    """`accelerate launch --mixed_precision bf16` puts autocast into the model's own `forward`."""
    from accelerate import Accelerator

    from tacit.train import PrivateTrainer

    monkeypatch.setattr(Accelerator, "mixed_precision", property(lambda self: precision))
    with pytest.raises(BadInput, match="ACCELERATE_MIXED_PRECISION"):
        PrivateTrainer(model(words=False), arguments(tmp_path), train_dataset=Sentences(words=False), plan=PLAN, rng=1)


def test_items_as_libraries_give_them(tmp_path) -> None:
    """Lists in place of tensors, "label" for "labels", texts and columns that the model does not take, a collator."""
    from tacit.train import PrivateTrainer

    plain = Sentences(words=False)
    rows = [
        {"text": "words", "idx": row, "input_ids": plain.ids[row].tolist(), "label": int(plain[row]["labels"])}
        for row in range(40)
    ]

    def words(items):
        return {"input_ids": torch.stack([item["input_ids"] for item in items]), "labels": torch.tensor([0])}

    found = []
    for data, more in ((plain, {}), (rows, {}), (plain, {"data_collator": words})):
        net = model(words=False)
        PrivateTrainer(net, arguments(tmp_path), train_dataset=data, plan=PLAN, rng=3, **more).train()
        found.append(flat(net))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_items_that_do_not_fit_get_a_sentence(tmp_path) -> None:
    from tacit.train import PrivateTrainer

    def refused(data, words: str) -> None:
        trainer = PrivateTrainer(model(words=False), arguments(tmp_path), train_dataset=data, plan=PLAN, rng=3)
        with pytest.raises(BadInput, match=words):
            trainer.train()

    refused([{"input_ids": [3] * (5 + row % 2), "labels": 0} for row in range(40)], "texts padded to public lengths")
    refused([{"input_ids": [3] * 5} for row in range(40)], "no labels")


def test_users_are_units_here_too(tmp_path) -> None:
    from tacit.train import PrivateTrainer
    from tacit.train.adapters.hugging_face import per_example

    data, users, plan = Sentences(words=False), [row // 2 for row in range(40)], Plan(20, 0.5, 2, 1.0, unit="user")
    net = model(words=False)
    options = {"users": users, "records_per_user": 2}
    args = arguments(tmp_path, lr_scheduler_type="constant")
    PrivateTrainer(net, args, train_dataset=data, plan=plan, rng=3, noise="grid", **options).train()
    ours = model(words=False).train()
    step = private(ours, torch.optim.SGD(ours.parameters(), lr=0.1), plan, loss=per_example, rng=3, noise="grid")
    for batch in step.batches(data, **options):
        step(batch)
    torch.testing.assert_close(flat(net), flat(ours), rtol=1e-5, atol=1e-6)


def test_the_example_learns_and_says_what_it_cost() -> None:
    """Accuracy was 0.84 to 0.88 with five sources of noise; guessing is 0.1."""
    from examples.hugging_face_digits import main

    accuracy, epsilon = main()
    assert accuracy > 0.6
    assert 7.9 < epsilon <= 8.0


def test_max_grad_norm_does_not_act_on_what_is_released(tmp_path) -> None:
    from tacit.train import PrivateTrainer

    found = []
    for norm in (1.0, 1e-9):
        trainer = PrivateTrainer(
            model(words=True), arguments(tmp_path, max_grad_norm=norm), train_dataset=Sentences(words=True), plan=PLAN,
            rng=5,
        )  # fmt: skip
        trainer.train()
        found.append(flat(trainer.model))
    assert torch.equal(*found)
    assert not torch.equal(found[1], flat(model(words=True)))


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 2)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(self.norm(input_ids.float()))


def test_frozen_batch_norm_stays_frozen_though_the_trainer_calls_train(tmp_path) -> None:
    from tacit.train import PrivateTrainer, freeze_batch_norm

    def loss(net: torch.nn.Module, batch: dict) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(net(batch["input_ids"]), batch["labels"], reduction="none")

    net = freeze_batch_norm(Normed())
    data = Sentences(words=False)
    trainer = PrivateTrainer(net, arguments(tmp_path), train_dataset=data, plan=PLAN, rng=5, loss=loss)
    trainer.train()
    assert int(net.norm.num_batches_tracked) == 0
    assert not torch.equal(net.norm.weight, torch.ones(7))
