"""`PKG:NAME` on the command line: an object of the user's own code, with the working folder on the path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ..core.errors import BadInput, TacitError


def resolve(entry: str) -> Any:
    """Import `package.module:name`; what is missing is said in one sentence."""
    module_name, _, name = entry.partition(":")
    if not module_name or not name:
        raise BadInput(f"{entry!r} is not of the form package.module:name.")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = "it" if error.name and module_name.startswith(error.name) else f"{error.name}, which it imports,"
        raise BadInput(f"Module {module_name!r} cannot be imported: {missing} was not found.") from None
    except TacitError:
        raise
    except Exception as error:
        raise BadInput(f"Module {module_name!r} cannot be imported: it raised {type(error).__name__}.") from None
    found: Any = module
    for part in name.split("."):
        if part not in dir(found):
            raise BadInput(f"Module {module_name!r} has no {name!r}.")
        found = getattr(found, part)
    return found


def resolve_callable(entry: str) -> Any:
    """A function or class of the user's."""
    found = resolve(entry)
    if not callable(found):
        raise BadInput(f"{entry!r} is not callable.")
    return found
