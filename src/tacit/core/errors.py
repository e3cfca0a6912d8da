"""What can go wrong, as a small tree. Every message says what is wrong and what would be right, and holds no data."""

from __future__ import annotations

import shlex
import sysconfig
import traceback
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

ELSEWHERE = (str(Path(__file__).resolve().parents[1]), "site-packages", sysconfig.get_paths()["stdlib"], "<frozen")
"""Parts of the names of files that are nobody's own code."""


LONGEST = 600
"""Characters of a sentence: names that came from a file may be of any length."""


def clean(text: str) -> str:
    """Text without control characters, direction marks and lone surrogates; each becomes a replacement character."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else "\ufffd" for c in text)


@dataclass(frozen=True)
class Argument:
    """An argument that an error names, perhaps with a value: `unit`, `unit="row"`, `bounds=(lower, upper)`.

    The text of an error has Python's form; the command writes the option that stands for it.
    """

    name: str
    value: str | tuple[str, ...] | None = None

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        return (
            f'{self.name}="{self.value}"' if isinstance(self.value, str) else f"{self.name}=({', '.join(self.value)})"
        )

    def after(self, option: str) -> str:
        """The option with the value, as one types it in a shell."""
        if self.value is None:
            return option
        return f"{option} {shlex.quote(self.value) if isinstance(self.value, str) else ','.join(self.value)}"


Words = str | tuple[str | Argument, ...]
"""A sentence, in parts where it names arguments."""


class TacitError(Exception):
    """Base of all errors of tacit; `code` is the stable name used in JSON, `fix` one sentence that helps."""

    code: ClassVar[str] = "error"

    def __init__(self, message: Words, *, fix: Words = "") -> None:
        self.parts = (message, fix)
        self.message, self.fix = _shortened(_joined(message)), _joined(fix)[:LONGEST]
        super().__init__(self.message)

    def rename(self, written: Callable[[Argument], str]) -> None:
        """Write every argument that the sentences name in another way."""
        message, fix = (_joined(part, written) for part in self.parts)
        self.message, self.fix = _shortened(message), fix[:LONGEST]
        self.args = (self.message,)

    def __str__(self) -> str:
        return f"{self.message} {self.fix}".strip()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error with all of its attributes, whatever arguments its class takes."""
        return _made, (type(self), self.args), self.__dict__


class BadInput(TacitError, ValueError):
    """An argument, file or option is not what it must be; nothing was done."""

    code = "bad-input"


class Unsupported(TacitError):
    """No theorem is known here for this event under this adjacency."""

    code = "unsupported"

    def __init__(self, event: object, adjacency: object, *, fix: str = "") -> None:
        super().__init__(f"No theorem here bounds {event} under {adjacency} adjacency.", fix=fix)
        self.event = event
        self.adjacency = adjacency


class Mismatch(TacitError, ValueError):
    """Two things that must agree do not: delta, adjacency, unit, or records that must be disjoint."""

    code = "mismatch"


class BudgetExceeded(TacitError):
    """The ledger refuses a charge; nothing was drawn."""

    code = "budget-exceeded"

    def __init__(self, asked: float, remaining: float, stated: tuple[float, float] | None = None) -> None:
        """`stated`: the delta that the charge states, and how much remains for such charges, if that is the reason."""
        from .shown import at_most, remains

        why = f"The charge asks for epsilon {at_most(asked, 6)} and {remains(remaining, 6)} remains."
        fix = "Ask for less, or open a new budget."
        if stated is not None:
            why = f"The charge states delta {stated[0]:.6g} and {stated[1]:.6g} remains for releases that state one."
            fix = "Ask for a smaller delta, or open a budget with a larger delta or a larger part for them (stated)."
        super().__init__(why, fix=fix)
        self.asked = asked
        self.remaining = remaining


class MissingExtra(TacitError, ImportError):
    """An optional dependency is not installed."""

    code = "missing-extra"

    def __init__(self, extra: str, command: str | None = None) -> None:
        command = command or f"pip install 'tacit[{extra}]'"
        super().__init__(f"This needs the extra `{extra}`.", fix=f"Run: {command}")
        self.extra = extra
        self.command = command


class NotFinished(TacitError):
    """The work stopped before there was an answer to rely on; what was done is kept."""

    code = "not-finished"


class PrivacyWarning(UserWarning):
    """A setting that is legal and probably not what anybody wants, such as delta >= 1/n."""


class FileWarning(UserWarning):
    """A file was damaged; what could be read of it was used, and the rest is made again."""


def where(error: BaseException) -> str:
    """The place in somebody's code that raised: file, line and function, never the text, which may hold data.

    It is the innermost place outside this library and installed packages, or else the innermost of all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in ELSEWHERE)]
    if not (found := own or list(frames)):
        return "an unknown place"
    return f"{Path(found[-1].filename).name}, line {found[-1].lineno}, in {found[-1].name}"


class SlowWarning(UserWarning):
    """Something is done in a way that is right and slow, such as training one record at a time.

    `factor`: how many times slower, as measured; None where it cannot be.
    """

    def __init__(self, message: str, factor: float | None = None) -> None:
        super().__init__(message)
        self.factor = factor


def _joined(words: Words, written: Callable[[Argument], str] = str) -> str:
    """Parts as one line of clean text."""
    parts = (words,) if isinstance(words, str) else words
    text = "".join(part if isinstance(part, str) else written(part) for part in parts)
    return " ".join(clean(text).split("\n"))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _made(kind: type[TacitError], args: tuple[object, ...]) -> TacitError:
    error = kind.__new__(kind)
    error.args = args
    return error
