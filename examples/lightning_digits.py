"""Lightning with private steps: handwritten digits, one changed line in the module and two around the Trainer.

pip install 'tacit[lightning,erm]' && python examples/lightning_digits.py
"""

from __future__ import annotations

import lightning
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tacit
from tacit.train import PrivateCallback

PUBLIC_SIZE, DELTA = 1500, 1e-5


class Digits(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        x, y = batch
        return F.cross_entropy(self.net(x), y, reduction="none")  # changed: one loss per example

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)


def main(epsilon: float = 3.0) -> tuple[float, float]:
    """Accuracy on held-out digits, and the proven epsilon."""
    torch.manual_seed(0)
    x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    x = x.float() / 16  # pixels are 0 to 16, for everybody
    plan = tacit.plan(PUBLIC_SIZE, epsilon=epsilon, delta=DELTA, epochs=20, batch_size=300)
    private = PrivateCallback(plan)
    trainer = lightning.Trainer(
        callbacks=[private], accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    held_out = DataLoader(TensorDataset(x[PUBLIC_SIZE:], y[PUBLIC_SIZE:]), batch_size=300)
    trainer.fit(Digits(), private.batches((x[:PUBLIC_SIZE], y[:PUBLIC_SIZE])), held_out)
    evidence = private.evidence(DELTA)
    assert evidence.claim is not None
    return float(trainer.callback_metrics["accuracy"]), evidence.claim.bound.epsilon


if __name__ == "__main__":
    accuracy, proven = main()
    print(f"accuracy {accuracy:.3f} on held-out digits at epsilon {proven:.2f}, delta {DELTA:g}")
