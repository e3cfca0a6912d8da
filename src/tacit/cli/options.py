"""Errors in the words of a terminal: options in place of Python's arguments, and what is wrong with a number."""

from __future__ import annotations

import contextlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator

if typing.TYPE_CHECKING:
    from ..core.errors import Argument

NOT_PARSED = re.compile(r"Input should be a valid (integer|number)\b.*")
NUMBERS = {"integer": "it must be a whole number.", "number": "it must be a number."}
"""What typer says of an option that is no number, and what we say."""
ALIASES = {"public_size": "records"}
"""Arguments of Python whose option has another name."""


def given_option(function: Callable[..., object], arguments: dict[str, object], argument: Argument) -> str:
    """Name an argument in an error: as the option `--name` if it was given on the command line, else as in Python."""
    name = ALIASES.get(argument.name, argument.name)
    usual = inspect.signature(function).parameters
    if name in arguments and arguments[name] != usual[name].default:
        return argument.after(f"--{name.replace('_', '-')}")
    return str(argument)


@contextlib.contextmanager
def in_options(written: Callable[[Argument], str]) -> Iterator[None]:
    """Let errors name options in place of Python's arguments."""
    from ..core.errors import TacitError

    try:
        yield
    except TacitError as error:
        error.rename(written)
        raise


def in_words(sentence: str) -> str:
    """What typer says of a mistake in the options, without its words for types."""
    return NOT_PARSED.sub(lambda found: NUMBERS[found[1]], sentence)
