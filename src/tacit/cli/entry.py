"""`PKG:NAME` on the command line: an object of the user's own code, with the working folder on the path."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import sys
from pathlib import Path
from typing import Any

from ..audits.foreign import Border
from ..core.errors import BadInput
from ..core.files import text


def resolve(entry: str) -> object:
    """Import `package.module:name`; what is missing is said in one sentence."""
    module_name, _, name = entry.partition(":")
    if not module_name or not name:
        raise BadInput(f"{entry!r} is not of the form package.module:name.")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module: Any = None
    missing: str | None = None
    with Border() as border:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            missing = error.name or module_name
    if missing is not None:
        what = "it" if module_name.startswith(missing) else f"{missing}, which it imports,"
        raise BadInput(f"Module {module_name!r} cannot be imported: {what} was not found.")
    if border.problem:
        raise BadInput(f"Module {module_name!r} cannot be imported: it {border.problem}{border.place}.")
    found: Any = module
    for part in name.split("."):
        if part not in dir(found):
            raise BadInput(f"Module {module_name!r} has no {name!r}.")
        found = getattr(found, part)
    return found


def code_of(entry: str) -> dict[str, str]:
    """A hash of the module that an entry is in, without its comments: runs of two versions must not be mixed."""
    module = sys.modules.get(entry.partition(":")[0])
    path = Path(getattr(module, "__file__", None) or "")
    if path.suffix != ".py" or not path.is_file():
        return {}
    with contextlib.suppress(BadInput, SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.dump(ast.parse(text(path)))
        return {f"code of {path.name}": hashlib.sha256(tree.encode()).hexdigest()[:16]}
    return {}


class Guarded:
    """Wrap the user's function: an exception becomes one sentence with its kind and place, never its text."""

    def __init__(self, entry: str) -> None:
        self._entry, self._function = entry, resolve_callable(entry)
        functools.update_wrapper(self, self._function, updated=())
        for name in ("many", "at_once", "isolation"):  # a training that makes many runs at once
            if name in dir(self._function):
                setattr(self, name, getattr(self._function, name))

    def __call__(self, *arguments: object) -> Any:
        made: Any = None
        with Border() as border:
            made = self._function(*arguments)
        if border.problem:
            raise BadInput(f"{self._entry} {border.problem} when called with {len(arguments)} arguments{border.place}.")
        return made


def resolve_model(entry: str) -> Any:
    """A trained model of a known library as it is, or predict(x), guarded."""
    from ..study.models import own_answers

    found = resolve(entry)
    return Guarded(entry) if own_answers(found) is None else found


def resolve_callable(entry: str) -> Any:
    """A function or class of the user's."""
    found = resolve(entry)
    if not callable(found):
        raise BadInput(f"{entry!r} is not callable.", fix="Name a function, as in package.module:function.")
    return found
