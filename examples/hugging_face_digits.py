"""Hugging Face's Trainer with private steps: a small vision transformer learns handwritten digits.

pip install 'tacit[hf,erm]' && python examples/hugging_face_digits.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from transformers import TrainingArguments, ViTConfig, ViTForImageClassification

import tacit
from tacit.train import PrivateTrainer

PUBLIC_SIZE, DELTA = 1500, 1e-5


def digits() -> list[dict[str, Any]]:
    x, y = load_digits(return_X_y=True)
    pixels = x.reshape(-1, 1, 8, 8).astype("float32") / 16  # they are 0 to 16, for everybody
    return [
        {"pixel_values": torch.as_tensor(image), "label": int(label)} for image, label in zip(pixels, y, strict=True)
    ]


def accuracy(found: Any) -> dict[str, float]:
    return {"accuracy": float((np.argmax(found.predictions, 1) == found.label_ids).mean())}


def main(epsilon: float = 8.0, epochs: int = 40) -> tuple[float, float]:
    """Accuracy on held-out digits, and the proven epsilon."""
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = ViTConfig(**size, image_size=8, patch_size=4, num_channels=1, num_labels=10, initializer_range=0.1)
    plan = tacit.plan(PUBLIC_SIZE, epsilon=epsilon, delta=DELTA, epochs=epochs, batch_size=500)
    rows = digits()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, optim="adamw_torch", learning_rate=0.01, max_grad_norm=0.0, use_cpu=True, report_to=[],
            save_strategy="no", logging_steps=30, disable_tqdm=True, per_device_eval_batch_size=300,
        )  # fmt: skip
        trainer = PrivateTrainer(
            ViTForImageClassification(config), args, train_dataset=rows[:PUBLIC_SIZE], eval_dataset=rows[PUBLIC_SIZE:],
            compute_metrics=accuracy, plan=plan,
        )  # fmt: skip
        trainer.train()
        found = trainer.evaluate()["eval_accuracy"]
    evidence = trainer.evidence(DELTA)
    assert evidence.claim is not None
    return found, evidence.claim.bound.epsilon


if __name__ == "__main__":
    accuracy_found, proven = main()
    print(f"accuracy {accuracy_found:.3f} on held-out digits at epsilon {proven:.2f}, delta {DELTA:g}")
