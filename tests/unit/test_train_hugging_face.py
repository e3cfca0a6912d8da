"""Hugging Face's Trainer with private steps."""

import pytest
import torch

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import private

pytestmark = [
    pytest.mark.needs("transformers"),
    pytest.mark.needs("accelerate"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,
]
PLAN = Plan(40, 0.25, 6, 1.0)


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
    return TrainingArguments(**{**options, **more}, learning_rate=0.1, optim="sgd", max_grad_norm=0.0)


def flat(net: torch.nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in net.parameters()])


@pytest.mark.parametrize("words", [True, False])
def test_the_trainer_takes_the_steps_of_the_three_line_loop(tmp_path, words: bool) -> None:
    from tacit.train import PrivateTrainer
    from tacit.train.hugging_face import per_example

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
    step = private(ours, torch.optim.SGD(ours.parameters(), lr=0.1), PLAN, loss=per_example, rng=3)
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


class Account:
    """A ledger that keeps the keys it was charged under."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def charge(self, event: object, *, key: str, **_: object) -> None:
        self.keys.append(key)


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

    account = Account()
    torch.manual_seed(0)
    whole = trainer(tmp_path / "whole", Account())
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
    torch.manual_seed(77)
    second = trainer(tmp_path / "killed", account)
    assert second.train(resume_from_checkpoint=True).global_step == PLAN.steps
    assert torch.equal(flat(second.model), flat(whole.model))
    assert second.evidence(1e-3).provenance["steps"] == PLAN.steps
    assert len(set(account.keys)) == 1
    assert not secret.exists()


def test_words_that_are_ignored_do_not_count() -> None:
    from tacit.train.hugging_face import IGNORED, per_example

    net = model(words=True).eval()
    ids = Sentences(words=True).ids[:2]
    labels = ids.clone()
    labels[0, 4:] = IGNORED
    labels[1] = IGNORED
    found = per_example(net, {"input_ids": ids, "labels": labels})
    logits = net(input_ids=ids[:1]).logits[0, :3]
    torch.testing.assert_close(found[0], torch.nn.functional.cross_entropy(logits, ids[0, 1:4]))
    assert found[1] == 0
