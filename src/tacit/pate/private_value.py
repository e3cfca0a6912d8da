"""A number that was computed from private data without noise, and that must not get out by accident."""

from __future__ import annotations

from typing import NoReturn

from ..core import BadInput


class PrivateValue:
    """A private number: it is not printed, compared, charged or written, and `float()` of it is refused.

    `look(why)` gives the number to an operator who may see it. A release needs noise and a charge of its own
    (`PATE.release_bound`).
    """

    __slots__ = ("_about", "_value")

    def __init__(self, value: float, about: str) -> None:
        self._value, self._about = float(value), about

    @property
    def about(self) -> str:
        """What the number is."""
        return self._about

    def look(self, why: str) -> float:
        """The number itself, for whoever may see the private data; `why` says in words why this is no release."""
        if not isinstance(why, str) or not why.strip():
            raise BadInput(
                f"{self._about} is a private number.",
                fix='Say why you may look, for example look("the votes are published").',
            )
        return self._value

    def __repr__(self) -> str:
        return f"PrivateValue({self._about})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refused(self, *_: object) -> NoReturn:
        raise BadInput(
            f"{self._about} is a private number, which cannot be used as a public one.",
            fix="Release it with noise (release_bound), or look(why) where that is allowed.",
        )

    __float__ = __int__ = __bool__ = __index__ = __hash__ = _refused
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refused
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused
    __reduce__ = _refused
