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
    return TrainingArguments(**options, learning_rate=0.1, optim="sgd", max_grad_norm=0.0, **more)


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
    with pytest.raises(BadInput, match="once, from its start"):
        trainer.train()
    more = arguments(tmp_path, gradient_accumulation_steps=2)
    with pytest.raises(BadInput, match="accumulate by themselves"):
        PrivateTrainer(model(words=False), more, train_dataset=data, plan=PLAN)
    with pytest.raises(BadInput, match="train_dataset"):
        PrivateTrainer(model(words=False), arguments(tmp_path), plan=PLAN)


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
