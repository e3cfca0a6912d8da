"""Write the weights of a model to a safetensors file: tensors by name, no code."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ..core import MissingExtra, NotFinished
from ..core.manifest import sha256


def write_weights(model: nn.Module, path: Path) -> str:
    """Write the file and return its SHA-256, by which evidence refers to the weights."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError:
        raise MissingExtra("torch") from None
    # tied parameters are written once for each of their names
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in model.state_dict().items()}
    try:
        save_file(tensors, path)
    except (SafetensorError, OSError):
        raise NotFinished(
            f"{path.name} cannot be written.", fix="Make room on the disk; a run with a checkpoint goes on from it."
        ) from None
    return sha256(path)
