"""A value of the evidence together with its place, so that the page cannot show a number the JSON does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from markupsafe import Markup

from ..core.shown import at_most, shortened, significant

NOT_FINITE = "no finite value"
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class Node:
    """A JSON value and its RFC 6901 pointer into the list of evidences: `/0/claim/bound/epsilon`."""

    value: Any
    path: str

    def __getitem__(self, key: str | int) -> Node:
        return Node(self.value[key], f"{self.path}/{str(key).replace('~', '~0').replace('/', '~1')}")

    def __iter__(self) -> Iterator[Node]:
        return (self[index] for index in range(len(self.value)))

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        """A node that is there is true, whatever its value: 0 is a number too."""
        return True

    def items(self) -> list[tuple[str, Node]]:
        """The members of a JSON object, in order."""
        return [(key, self[key]) for key in self.value]

    def text(self) -> Markup:
        """The value as escaped HTML text that carries its JSON pointer."""
        return Markup('<span data-path="{}">{}</span>').format(self.path, self.value)

    def shortened(self) -> Markup:
        """A string with its long fractions cut for the eye; it carries its whole self and its pointer."""
        return Markup('<span title="{0}" data-value="{1}" data-path="{2}">{3}</span>').format(
            self.value, json.dumps(self.value), self.path, shortened(self.value)
        )

    def number(self, style: Callable[[float], str]) -> Markup:
        """A number in the given style, with its full precision and its pointer."""
        shown = NOT_FINITE if self.value is None else style(self.value)
        full = json.dumps(self.value)
        return Markup('<span class="n" data-value="{}" data-path="{}">{}</span>').format(full, self.path, shown)

    def show(self) -> Markup:
        """Any scalar, in its own style."""
        if isinstance(self.value, bool):
            return self.number(lambda value: "yes" if value else "no")
        if self.value is None or isinstance(self.value, int):
            return self.number(str)
        return self.number(significant) if isinstance(self.value, float) else self.text()

    def source(self) -> Markup:
        """A JSON value, printed as JSON."""
        return Markup('<pre tabindex="0"><code data-path="{}">{}</code></pre>').format(
            self.path, json.dumps(self.value, indent=2)
        )


def thousandths(value: float) -> str:
    """Three digits after the point, so that columns align; never 1.000 or 0.000 unless it is."""
    text = f"{value:.3f}"
    return f"{value:.7g}" if text in ("0.000", "1.000") and float(text) != value else text


def percent(value: float) -> str:
    """A rate as a percentage, three significant digits."""
    return f"{significant(100 * value)} %"


def percent_at_most(value: float) -> str:
    """An upper limit of a rate as a percentage, rounded up."""
    return f"{at_most(100 * value)} %"


def measured(value: float) -> str:
    """A measured rate as a percentage: three significant digits, so that columns align; never 100 % unless it is 1."""
    if value in (0, 1):
        return f"{100 * value:g} %"
    text = f"{100 * value:#.3g}".rstrip(".")
    if text == "100":
        return f"{100 * value:.7g} %"
    return f"{text} %" if "e" not in text else percent(value)


def rounded_percent(value: float) -> str:
    """A confidence as a percentage. Its distance from 100 % keeps three digits: 99.99999999 % is not 100 %."""
    exact = Decimal(repr(value)) * 100
    short = 100 - Context(prec=3).create_decimal(100 - exact)
    return f"{short.normalize():f} %"


def likely(value: float) -> str:
    """A computed chance as a percentage; below 1e-12 it is shown as 0."""
    return percent(value if value >= NEGLIGIBLE else 0.0)


def count(value: float) -> str:
    """A whole number with its thousands marked."""
    return f"{value:,}"
