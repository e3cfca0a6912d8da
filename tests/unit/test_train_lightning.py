"""Lightning's Trainer with private steps."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.core import BadInput, BudgetExceeded
from tacit.events import Laplace
from tacit.loss import Plan
from tacit.train import Speed, private

pytestmark = [pytest.mark.needs("lightning"), pytest.mark.filterwarnings("ignore")]
PLAN = Plan(60, 0.25, 6, 1.0)
DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


def make(**options):
    import lightning

    class Module(lightning.LightningModule):
        """An ordinary module, but that its losses are one per example."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
            self.seen = []

        def training_step(self, batch, index):
            x, y = batch
            losses = F.cross_entropy(self.net(x), y, reduction="none")
            if options.get("logs"):
                self.log_dict({"mine": losses.mean()})
            return losses.mean() if options.get("scalar") else {"loss": losses} if options.get("dict") else losses

        def validation_step(self, batch, index):
            self.log("accuracy", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            if options.get("two"):
                return [optimizer, torch.optim.SGD(self.parameters(), lr=0.1)], []
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    module = Module()
    module.automatic_optimization = not options.get("manual")
    return module


def trainer(*callbacks, **options):
    import lightning

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    return lightning.Trainer(callbacks=list(callbacks), enable_model_summary=False, **{**quiet, **options})


def held_out():
    """Records that are none of the training's."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*(one.clone() for one in DATA)), batch_size=20)


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in module.parameters()])


def by_hand(plan: Plan = PLAN, **asked) -> torch.Tensor:
    module = make()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    step = private(module.net, optimizer, plan, rng=3)
    for batch in step.batches(DATA, **asked):
        step(batch)
        schedule.step()
    return flat(module)


@pytest.mark.parametrize("options", [{}, {"dict": True}])
def test_the_trainer_takes_the_steps_of_the_three_line_loop(options, tmp_path) -> None:
    """Schedules included: the same parameters as the loop with `tacit.private`; one charge pays for the whole plan."""
    from tacit.train import PrivateCallback

    ledger = budget(tmp_path)
    callback, module = PrivateCallback(PLAN, rng=3, ledger=ledger), make(**options)
    run = trainer(callback, val_check_interval=3, limit_val_batches=2)
    loader = held_out()
    run.fit(module, callback.batches(DATA), loader)
    torch.testing.assert_close(flat(module), by_hand(), rtol=1e-5, atol=1e-6)
    assert run.global_step == PLAN.steps
    assert run.current_epoch <= 1
    assert {"accuracy", "train_loss", "train_clipped"} <= set(run.callback_metrics)
    evidence = callback.evidence(1e-3)
    assert evidence.claim.event == PLAN.event
    assert (evidence.provenance["steps"], evidence.provenance["randomness"]) == (
        PLAN.steps,
        callback.private.source_name,
    )
    assert "training_step" not in vars(module)
    with pytest.raises(BadInput, match="once, from its start"):
        run.fit(module, callback.batches(DATA))
    assert [(entry.event, entry.purpose) for entry in ledger.entries()] == [(PLAN.event, "training")]
    assert not any("no ledger" in text for text in evidence.not_covered)
    assert ledger.verify()


def budget(folder):
    pytest.importorskip("sqlalchemy")
    from tacit.ledger import Ledger

    return Ledger.create(folder / "a.db", epsilon=50.0, delta=1e-6, unit="record")


def test_a_budget_that_is_too_small_stops_the_trainer_before_its_first_step(tmp_path) -> None:
    from tacit.train import PrivateCallback

    ledger, module = budget(tmp_path), make()
    ledger.charge(Laplace(1 / 49.9), key="earlier")
    before, callback = flat(module).clone(), PrivateCallback(PLAN, rng=3, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        trainer(callback).fit(module, callback.batches(DATA))
    assert torch.equal(flat(module), before)
    assert len(ledger.entries()) == 1


def test_users_and_losses_of_ones_own() -> None:
    from tacit.train import PrivateCallback

    plan, users = Plan(20, 0.5, 3, 1.0, unit="user"), torch.arange(60).numpy() // 3

    def loss(module, batch):
        return F.cross_entropy(module.net(batch[0]), batch[1], reduction="none")

    callback, module = PrivateCallback(plan, loss=loss, rng=3), make(scalar=True)
    trainer(callback).fit(module, callback.batches(DATA, users=users, records_per_user=2))
    expected = by_hand(plan, users=users, records_per_user=2)
    torch.testing.assert_close(flat(module), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        ({}, {"gradient_clip_val": 1.0}, "gradient_clip_val"),
        ({}, {"accumulate_grad_batches": 2}, "accumulate by themselves"),
        ({}, {"precision": "bf16-mixed"}, "precision"),
        ({}, {"strategy": "ddp", "devices": 2}, "one device"),
        ({"manual": True}, {}, "manual optimization"),
        ({"two": True}, {}, "one optimizer|Manual optimization|multiple optimizers"),
        ({"scalar": True}, {}, "one number per example"),
        ({"logs": True}, {}, "training_step logs figures of the private data"),
    ],
)
def test_what_does_not_fit_is_refused(module, options, message: str, monkeypatch) -> None:
    from tacit.train import PrivateCallback

    callback, made = PrivateCallback(PLAN, rng=0), make(**module)
    before = flat(made)
    run = trainer(callback, **options)
    if "strategy" in options:  # without starting a second process
        with pytest.raises(BadInput, match=message):
            callback.setup(run, made, "fit")
        return
    with pytest.raises((BadInput, RuntimeError), match=message):
        run.fit(made, callback.batches(DATA))
    assert torch.equal(flat(made), before)


@pytest.mark.parametrize("kind", ["schedule", "stop", "checkpoint", "name"])
def test_nothing_follows_what_has_no_noise(kind: str, tmp_path) -> None:
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    from tacit.train import PrivateCallback

    module, callback = make(), PrivateCallback(PLAN, rng=1)
    callbacks, options = [callback], {}
    if kind == "schedule":
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        plateau = {"scheduler": schedule, "monitor": "train_loss", "interval": "step"}
        module.configure_optimizers = lambda: {"optimizer": optimizer, "lr_scheduler": plateau}
    elif kind == "stop":
        callbacks.append(EarlyStopping("train_clipped"))
    else:
        asked = {"monitor": "train_loss"} if kind == "checkpoint" else {"filename": "{step}-{train_loss:.2f}"}
        callbacks.append(ModelCheckpoint(tmp_path, **asked))
        options = {"enable_checkpointing": True}
    with pytest.raises(BadInput, match="past it"):
        trainer(*callbacks, **options).fit(module, callback.batches(DATA))


def test_other_batches_and_other_schedules_are_refused() -> None:
    from lightning.pytorch.callbacks import GradientAccumulationScheduler

    from tacit.train import PrivateCallback

    callback = PrivateCallback(PLAN, rng=0)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*DATA), batch_size=20)
    with pytest.raises(BadInput, match="draw their own samples"):
        trainer(callback).fit(make(), loader)
    with pytest.raises(BadInput, match="Nothing was trained"):
        callback.evidence(1e-3)
    callback = PrivateCallback(PLAN, rng=0)
    with pytest.raises(BadInput, match="accumulate by themselves"):
        trainer(callback, GradientAccumulationScheduler({0: 2})).fit(make(), callback.batches(DATA))


@pytest.mark.parametrize("checked", [0, 2])
def test_validation_on_the_training_data_is_refused(checked: int) -> None:
    """Loggers would save its figures, and checkpoints be chosen by them."""
    from tacit.train import PrivateCallback

    callback, module = PrivateCallback(PLAN, rng=0), make()
    loader, before = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*DATA), batch_size=20), flat(module)
    with pytest.raises(BadInput, match="figures without noise"):
        trainer(callback, num_sanity_val_steps=checked).fit(module, callback.batches(DATA), loader)
    assert torch.equal(flat(module), before)


def test_a_test_on_the_training_data_is_refused() -> None:
    from tacit.train import PrivateCallback

    callback, module = PrivateCallback(PLAN, rng=0), make()
    module.test_step = module.validation_step
    run = trainer(callback)
    run.fit(module, callback.batches(DATA))
    assert run.test(module, held_out(), verbose=False)
    part = torch.utils.data.TensorDataset(*(one[:7] for one in DATA))
    with pytest.raises(BadInput, match="figures without noise"):
        run.test(module, torch.utils.data.DataLoader(part), verbose=False)


def test_checkpoints_hold_no_secret_and_are_not_gone_on_from(tmp_path) -> None:
    from tacit.train import PrivateCallback

    callback, module = PrivateCallback(PLAN, rng=0), make()
    run = trainer(callback, max_steps=2)
    run.fit(module, callback.batches(DATA))
    path = tmp_path / "two.ckpt"
    run.save_checkpoint(path)
    kept = torch.load(path, weights_only=True)
    assert not any("Private" in name for name in kept["callbacks"])
    fresh = PrivateCallback(PLAN, rng=0)
    with pytest.raises(BadInput, match="once, from its start"):
        trainer(fresh).fit(make(), fresh.batches(DATA), ckpt_path=path)
    loader = held_out()
    assert trainer(fresh).validate(make(), loader, ckpt_path=path)


def test_a_search_of_the_learning_rate_is_refused_as_a_look_that_nobody_pays_for(tmp_path) -> None:
    """It was told that nothing was trained yet."""
    from lightning.pytorch.callbacks import LearningRateFinder

    from tacit.train import PrivateCallback

    own, module = PrivateCallback(PLAN), make()
    module.lr = 0.1
    search = trainer(LearningRateFinder(num_training_steps=2), own, default_root_dir=tmp_path)
    with pytest.raises(BadInput, match="LearningRateFinder, Tuner and loops outside"):
        search.fit(module, own.batches(DATA))


def test_a_run_stopped_early_claims_the_whole_plan() -> None:
    from tacit.train import PrivateCallback

    callback = PrivateCallback(PLAN, rng=0, speed=Speed(physical_batch=4))
    trainer(callback, max_steps=2).fit(make(), callback.batches(DATA))
    assert callback.evidence(1e-3).provenance["steps"] == 2
    assert callback.evidence(1e-3).claim.bound.epsilon == PLAN.bound(1e-3).epsilon


def test_the_example_learns_digits() -> None:
    """A tenth of the digits would be right by chance; the run's own noise moves the accuracy by a few percent."""
    from examples.lightning_digits import main

    accuracy, epsilon = main()
    assert accuracy > 0.6
    assert 2.9 < epsilon <= 3.0


def test_loggers_are_not_given_what_has_no_noise(tmp_path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    from tacit.train import PrivateCallback

    callback, logger = PrivateCallback(PLAN, rng=3), CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    run = trainer(callback, logger=logger, log_every_n_steps=1, enable_checkpointing=True, limit_val_batches=2)
    loader = held_out()
    run.fit(make(), callback.batches(DATA), loader)
    assert {"train_loss", "train_clipped"} <= set(run.progress_bar_metrics)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".csv", ".ckpt"}
    left = b"".join(path.read_bytes() for path in files)
    assert b"accuracy" in left
    assert b"train_loss" not in left
    assert b"train_clipped" not in left


def test_frozen_batch_norm_stays_frozen() -> None:
    from tacit.train import PrivateCallback, freeze_batch_norm

    callback, module = PrivateCallback(PLAN, rng=3), make()
    module.net.insert(1, nn.BatchNorm1d(8))
    freeze_batch_norm(module)
    trainer(callback).fit(module, callback.batches(DATA))
    assert int(module.net[1].num_batches_tracked) == 0
    assert not torch.equal(module.net[1].weight, torch.ones(8))
