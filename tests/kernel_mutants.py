"""A kernel's module with one line changed: what its test must notice. Used by interpreted programs."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def changed(module: ModuleType, old: str, new: str, folder: str) -> ModuleType:
    """The module as it would be with `new` for `old`, which stands in it once."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, old
    path = Path(folder) / f"mutant_{len(list(Path(folder).iterdir()))}.py"
    path.write_text(source.replace(old, new).replace("from .", f"from {module.__package__}."), encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    mutant = module_from_spec(spec)
    spec.loader.exec_module(mutant)
    return mutant
