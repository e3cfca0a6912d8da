"""Architectures of transformers, timm and torchvision at tiny sizes: random weights, nothing is downloaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, LENGTH, WORDS, PIXELS, CLASSES = 16, 2, 6, 50, 32, 4
CONFIG = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH,
    "vocab_size": WORDS, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "num_labels": CLASSES,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 1}
EXPERTS = {"num_key_value_heads": 1, "num_experts_per_tok": 2, "num_local_experts": 4, "num_experts": 4}
D_MODEL = {
    "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_start_token_id": 1,
}  # fmt: skip
STAGES = {"image_size": PIXELS, "num_channels": 3, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]}
LEFT_OUT = object()
"""For a setting that a configuration does not take."""
PATCHES = {"image_size": PIXELS, "patch_size": 8}


@dataclass(frozen=True)
class Architecture:
    """`make` builds the model; `loss(model, batch)` gives one number per record; `batch(rows)` makes records."""

    library: str
    name: str
    kind: str
    make: Callable[[], nn.Module]

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return LOSSES[self.kind](model, batch)

    def batch(self, rows: int, seed: int) -> dict[str, Tensor]:
        return RECORDS[self.kind](rows, torch.Generator().manual_seed(seed))


def words(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Texts of one length; some of them end earlier, which their mask says."""
    ids = torch.randint(3, WORDS, (rows, LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    mask[::3, LENGTH - 2 :] = 0
    return {"ids": ids, "mask": mask}


def images(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    x = torch.randn(rows, 3, PIXELS, PIXELS, generator=generator)
    return {"x": x, "y": torch.randint(0, CLASSES, (rows,), generator=generator)}


def sounds(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    x = torch.randn(rows, 400, generator=generator)
    return {"x": x, "y": torch.randint(0, CLASSES, (rows,), generator=generator)}


def spectra(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    return {**words(rows, generator), "x": torch.randn(rows, 32, 16, generator=generator)}


def series(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Values that are all observed, longer in the past by the largest lag."""
    past = torch.randn(rows, 16, generator=generator)
    future = torch.randn(rows, 4, generator=generator)
    return {
        "past_values": past, "future_values": future, "past_time_features": past[..., None],
        "future_time_features": future[..., None], "past_observed_mask": torch.ones_like(past),
    }  # fmt: skip


def windows(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    past, future = (torch.randn(rows, length, 1, generator=generator) for length in (16, 4))
    return {"past_values": past, "future_values": future}


def next_word(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"], use_cache=False).logits
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), batch["ids"][:, 1:], reduction="none")
    return (losses * batch["mask"][:, 1:]).mean(1)


def next_word_whole(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["ids"]).logits
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), batch["ids"][:, 1:], reduction="none").mean(1)


def every_word(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
    return F.cross_entropy(logits.transpose(1, 2), batch["ids"], reduction="none").mean(1)


def category(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
    return F.cross_entropy(logits, batch["ids"][:, 0] % CLASSES, reduction="none")


def category_whole(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=batch["ids"]).logits
    return F.cross_entropy(logits, batch["ids"][:, 0] % CLASSES, reduction="none")


def translation(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(
        input_ids=batch["ids"], attention_mask=batch["mask"], decoder_input_ids=batch["ids"], use_cache=False
    ).logits
    return F.cross_entropy(logits.transpose(1, 2), batch["ids"], reduction="none").mean(1)


def pictures(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(pixel_values=batch["x"]).logits, batch["y"], reduction="none")


def plain_pictures(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")


def clips(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    video = batch["x"][:, :, None].expand(-1, -1, 4, -1, -1)
    return F.cross_entropy(model(video), batch["y"], reduction="none")


def noises(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(input_values=batch["x"]).logits, batch["y"], reduction="none")


def listening(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = model(input_features=batch["x"], decoder_input_ids=batch["ids"], use_cache=False).logits
    return F.cross_entropy(logits.transpose(1, 2), batch["ids"], reduction="none").mean(1)


def hearing(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(input_values=batch["x"]).logits, batch["ids"][:, 0] % CLASSES, reduction="none")


def forecast(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The log-likelihood of each record: the library's own loss averages over the batch."""
    found = model(**batch, return_dict=True, use_cache=False)
    spread = model.output_distribution(found.params, found.loc, found.scale)
    return -spread.log_prob(batch["future_values"]).mean(1)


def window(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    found = model(past_values=batch["past_values"]).prediction_outputs
    return (found - batch["future_values"]).square().mean((1, 2))


LOSSES: dict[str, Callable[[nn.Module, dict[str, Tensor]], Tensor]] = {
    "next word": next_word, "next word, no mask": next_word_whole, "every word": every_word, "category": category,
    "category, no mask": category_whole, "translation": translation, "pictures": pictures, "images": plain_pictures,
    "video": clips, "sound": noises, "listening": listening, "hearing": hearing, "forecast": forecast,
    "window": window,
}  # fmt: skip
RECORDS: dict[str, Callable[[int, torch.Generator], dict[str, Tensor]]] = {
    **dict.fromkeys(LOSSES, words), **dict.fromkeys(("pictures", "images", "video"), images), "sound": sounds,
    "listening": lambda rows, generator: {
        **words(rows, generator), "x": torch.randn(rows, 16, 32, generator=generator)
    },
    "hearing": spectra, "forecast": series, "window": windows,
}  # fmt: skip


def quiet(config: Any) -> Any:
    """No dropout of any kind, so that records can be compared with a loop."""
    for name, value in vars(config).items():
        random = "drop" in name or name.startswith("mask_") or name.endswith("_jitter_noise")
        if random and isinstance(value, float):
            setattr(config, name, 0.0)
    return config


def installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def hugging_face(name: str, kind: str, **extra: Any) -> Architecture:
    """A class of transformers by its name, with a small configuration."""

    def make() -> nn.Module:
        import transformers

        model = getattr(transformers, name)
        common = {"num_labels": CLASSES} if "depths" in extra else CONFIG  # sizes by stage have names of their own
        given = {name: value for name, value in {**common, **extra}.items() if value is not LEFT_OUT}
        return model(quiet(model.config_class(**given)))

    return Architecture("transformers", name, kind, make)
