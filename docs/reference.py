"""Writes the API reference: signatures, docstrings, arguments and examples of every public name, as Markdown.

A page of docs/api holds the line `<!-- reference: tacit.train -->`, which `source_read` replaces when Sphinx builds.
Examples stand in docs/api/examples/ROOM.py under lines `# %% name name`; tests run them.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import described, first, markdown, summary

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE / "api" / "examples"
MARK = re.compile(r"^<!-- reference: ([\w.]+) -->$", re.MULTILINE)
CELL = re.compile(r"^# %% (.*)$", re.MULTILINE)
ROOMS = (
    "tacit", "tacit.events", "tacit.train", "tacit.erm", "tacit.mechanism", "tacit.query", "tacit.pate",
    "tacit.ledger", "tacit.loss", "tacit.attacks", "tacit.audits", "tacit.reports", "tacit.data",
    "tacit.fleet", "tacit.disclosure",
)  # fmt: skip
ARGUMENTS = dict(
    line.split(" | ", 1)
    for line in (HERE / "api" / "arguments.txt").read_text(encoding="utf-8").splitlines()
    if " | " in line
)
"""What an argument means wherever it occurs, or in one function: `name | words`, `function(name) | words`."""


def names_of(room: str) -> list[str]:
    """The public names of a room that are not modules, each room's own once."""
    module = importlib.import_module(room)
    return [name for name in module.__all__ if not name.startswith("__") and not _is_module(module, name)]


def own_names(room: str) -> list[str]:
    """Those that are documented on the room's own page: the others are under `tacit`."""
    front, module = importlib.import_module("tacit"), importlib.import_module(room)
    if room == "tacit":
        return names_of(room)
    return [name for name in names_of(room) if getattr(front, name, None) is not getattr(module, name)]


def text_of(item: Any) -> str:
    """The docstring of a public object, empty where there is none of its own."""
    if hasattr(item, "rule"):  # an attack: its rule says what it does
        return inspect.getdoc(item.rule) or ""
    if not (inspect.isclass(item) or inspect.isroutine(item)):
        return ""
    found = (vars(item).get("__doc__") or "") if inspect.isclass(item) else inspect.getdoc(item) or ""
    return "" if found.startswith(f"{getattr(item, '__name__', '')}(") else inspect.cleandoc(found)


def members_of(item: Any) -> list[tuple[str, Any]]:
    """Public methods and properties of a class: its own, and those of bases that have no entry of their own."""
    if not inspect.isclass(item) or issubclass(item, Exception):
        return []
    found: dict[str, Any] = {}
    fields = {field.name for field in dataclasses.fields(item)} if dataclasses.is_dataclass(item) else set()
    for kind in _bases(item, documented=False):
        for name, value in vars(kind).items():
            if name in fields:  # a field whose default is a function
                continue
            body = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if name.startswith("_") or not (isinstance(body, property) or inspect.isfunction(body)):
                continue
            if body.__doc__ or not _called_by_another_library(kind, name):
                found.setdefault(name, getattr(item, name))
    return list(found.items())


def _bases(item: type, *, documented: bool) -> list[type]:
    """The class and those of its bases in tacit that have an entry of their own, or that have none."""
    ours = [kind for kind in item.__mro__[1:] if kind.__module__.startswith("tacit.")]
    public = _public_classes()
    return [kind for kind in ours if kind in public] if documented else [item, *(k for k in ours if k not in public)]


def _called_by_another_library(kind: type, name: str) -> bool:
    """Whether torch, Lightning or scikit-learn defines this method: without words of ours, theirs hold."""
    return any(hasattr(base, name) for base in kind.__mro__[1:] if not base.__module__.startswith("tacit."))


@cache
def _public_classes() -> frozenset[type]:
    rooms = [importlib.import_module(room) for room in ROOMS]
    return frozenset(kind for room in rooms for name in room.__all__ if inspect.isclass(kind := getattr(room, name)))


def undocumented(room: str) -> list[str]:
    """Public names and members without a docstring; values other than classes and functions are in DATA."""
    module, found = importlib.import_module(room), []
    for name in own_names(room):
        item = getattr(module, name)
        if not text_of(item) and f"{room}.{name}" not in DATA:
            found.append(name)
        found += [f"{name}.{part}" for part, value in members_of(item) if not inspect.getdoc(value)]
    return found


def unexplained(room: str) -> list[str]:
    """Arguments of functions, classes and methods that neither a docstring nor the list of arguments explains."""
    return [
        f"{name}({argument})"
        for name, item, text in _callables(room)
        for argument in arguments_of(item)
        if not described(text, argument) and not meaning(name, argument)
    ]


def _callables(room: str) -> list[tuple[str, Any, str]]:
    """Everything public that is called: its name, itself, and the docstrings that its entry shows."""
    module, found = importlib.import_module(room), []
    for name in own_names(room):
        item = getattr(module, name)
        text = text_of(item)
        found.append((name, item, text))
        found += [(f"{name}.{part}", value, f"{text}\n{inspect.getdoc(value)}") for part, value in members_of(item)]
    return found


def arguments_of(item: Any) -> list[str]:
    """The arguments of a function, method or class; those of an enumeration or an error are not for callers."""
    made = inspect.isclass(item) and not issubclass(item, enum.Enum | Exception)
    if not inspect.isroutine(item) and not made:
        return []
    try:
        found = inspect.signature(item).parameters.values()
    except (TypeError, ValueError):
        return []
    catch_all = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        value.name
        for value in found
        if not value.name.startswith("_")
        and value.name != "self"
        and not (value.kind in catch_all and value.name in ("args", "kwargs"))
    ]


def mixed() -> dict[str, list[str]]:
    """Words of the list that explain arguments of types which have nothing in common: they fit one of them at most."""
    kinds: dict[str, dict[str, set[str]]] = {}
    for name, item, _ in [found for room in ROOMS for found in _callables(room)]:
        for argument in arguments_of(item):
            if words_for(name, argument) == argument:
                found = inspect.signature(item).parameters[argument].annotation
                kinds.setdefault(argument, {})[name] = _alternatives(str(found))
    told = {argument: [found for found in users.values() if found not in WIDE] for argument, users in kinds.items()}
    return {argument: sorted(kinds[argument]) for argument, all_of in told.items() if not _share(all_of)}


WIDE = ({"Any"}, {"object"})
"""Types that say nothing about a value, so that words for any type fit them."""


def _share(kinds: list[set[str]]) -> bool:
    return not kinds or bool(set.intersection(*kinds))


def _alternatives(annotation: str) -> set[str]:
    """The types that an argument may have, without None; names for one type count as that type."""
    return {ALIASES.get(part, part) for part in annotation.strip("'").split(" | ")} - {"None"}


ALIASES = {
    "Rng": "Source", "Random": "Source", "Randomness": "Source",
    "Checkpoint": "str", "Claim": "Stated", "Flags": "ArrayLike", "NDArray[np.bool_]": "ArrayLike",
    "int": "float", "Limits": "tuple[float, float]", "Bounds": "tuple[float, float]", "Schemas": "Schema",
    "Adjacency": "str", "Path": "str", "torch.device": "str", "np.random.Generator": "Source",
}  # fmt: skip
"""Other names for a type, as they stand in signatures."""


def meaning(function: str, argument: str) -> str:
    return ARGUMENTS.get(words_for(function, argument), "")


def words_for(function: str, argument: str) -> str:
    """The line of the list that explains an argument: of one method, of a method of any class, of a room, or of all."""
    kind, _, method = function.rpartition(".")
    room = _rooms().get(kind or function, "")
    keys = (
        f"{function}({argument})", f"{kind}({argument})", f".{method}({argument})", f"{room}({argument})", argument,
    )  # fmt: skip
    return next((key for key in keys if key in ARGUMENTS), "")


@cache
def _rooms() -> dict[str, str]:
    """The room of every public name that stands in one room alone."""
    named = [(name, room) for room in ROOMS for name in own_names(room)]
    every = [name for name, _ in named]
    return {name: room for name, room in named if every.count(name) == 1}


DATA = {
    "tacit.attacks.ATTACKS": "Every registered attack by its name.",
    "tacit.audits.CANARIES": "Every kind of canary by its name, as `audit(canary=...)` takes it.",
    "tacit.fleet.MakeOptimizer": "The type of a function from parameters to a torch optimizer.",
    "tacit.data.NAMES": "The public data sets that `load` knows, by name.",
}


def examples(room: str) -> dict[str, tuple[str, str]]:
    """For every name its example and the name it stands under."""
    path = EXAMPLES / f"{room.rpartition('.')[2]}.py"
    if not path.exists():
        return {}
    _, *cells = CELL.split(path.read_text(encoding="utf-8"))
    found = {}
    for heading, code in zip(cells[::2], cells[1::2], strict=True):
        first, *_ = names = heading.split()
        found.update({name: (code.strip(), first) for name in names})
    return found


def page(room: str) -> str:
    """The reference of one room as Markdown."""
    module, shown, own = importlib.import_module(room), examples(room), own_names(room)
    told: dict[object, str] = {}
    parts = [_contents(room, own), *(_entry(room, name, shown, told) for name in own)]
    elsewhere = [name for name in names_of(room) if name not in own]
    if elsewhere:
        links = ", ".join(f"[`{name}`](#{anchor('tacit', name, getattr(module, name))})" for name in elsewhere)
        parts.append(f"## Also here\n\nDocumented under `tacit`: {links}.")
    return "\n\n".join(parts)


def _contents(room: str, names: list[str]) -> str:
    """A table of the names of a page, each with the first sentence about it."""
    module = importlib.import_module(room)
    rows = ((name, getattr(module, name)) for name in names)
    told = [
        f"| {_link(name, anchor(room, name, item))} | {summary(text_of(item) or DATA.get(f'{room}.{name}', ''))} |"
        for name, item in rows
    ]
    return "\n".join(["| name | what it is |", "|---|---|", *told])


def _link(name: str, target: str) -> str:
    return f"[`{name}`](#{target})"


def _choices(item: Any) -> list[Any]:
    return list(item) if inspect.isclass(item) and issubclass(item, enum.Enum) else []


def _returned(item: Any) -> str:
    """Links to the public classes that a function gives back."""
    if inspect.isclass(item) or not inspect.isroutine(item):
        return ""
    words = re.findall(r"\w+", str(inspect.signature(item).return_annotation))
    found = [_link(word, _public_anchors()[word]) for word in dict.fromkeys(words) if word in _public_anchors()]
    return f"Returns: {', '.join(found)}.\n" if found else ""


@cache
def _public_anchors() -> dict[str, str]:
    """Where each public class has its entry, for names that one class alone has."""
    places: dict[str, list[str]] = {}
    for room in ROOMS:
        for name in own_names(room):
            item = getattr(importlib.import_module(room), name)
            if inspect.isclass(item):
                places.setdefault(name, []).append(anchor(room, name, item))
    return {name: found[0] for name, found in places.items() if len(found) == 1}


def anchor(room: str, name: str, item: Any) -> str:
    kind = "class" if inspect.isclass(item) else "name"
    return f"{kind}-{room}-{name}".replace(".", "-").lower()


def _entry(room: str, name: str, shown: dict[str, tuple[str, str]], told: dict[object, str]) -> str:
    item = getattr(importlib.import_module(room), name)
    lines = [f"({anchor(room, name, item)})=", f"## {name}", ""]
    call = signature(name, item)
    if call:
        lines += ["```python", call, "```", ""]
    lines += [markdown(text_of(item) or DATA.get(f"{room}.{name}", ""), arguments_of(item)), "", _arguments(name, item)]
    lines += [f'- `{name}.{part.name}`, or `"{part.value}"`' for part in _choices(item)] + [_returned(item)]
    if name in shown:
        code, under = shown[name]
        home = room if under in own_names(room) else "tacit"
        link = _link(under, anchor(home, under, getattr(importlib.import_module(room), under)))
        lines += [f"Example: see {link}."] if under != name else ["Example:", "", "```python", code, "```"]
    return "\n".join([*lines, "", _members(item, told)])


def signature(name: str, item: Any) -> str:
    """A call as one would write it, one argument per line where it is long."""
    if not (inspect.isclass(item) or inspect.isroutine(item)) or (
        inspect.isclass(item) and issubclass(item, Exception | enum.Enum)
    ):
        return ""
    try:
        found = inspect.signature(item)
    except (TypeError, ValueError):
        return ""
    parts = [_parameter(value) for key, value in found.parameters.items() if not key.startswith("_")]
    keyword = [i for i, value in enumerate(found.parameters.values()) if value.kind is value.KEYWORD_ONLY]
    if keyword and not any(value.kind is value.VAR_POSITIONAL for value in found.parameters.values()):
        parts.insert(keyword[0], "*")
    told = found.return_annotation not in (inspect.Signature.empty, None) and not inspect.isclass(item)
    back = f" -> {found.return_annotation}".replace("'", "") if told else ""
    one = f"{name}({', '.join(parts)}){back}"
    return one if len(one) <= 90 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){back}"


def _parameter(value: inspect.Parameter) -> str:
    """An argument with its type and default as one would write them."""
    bare = str(value.replace(default=value.empty)).replace("'", "")
    if value.default is value.empty:
        return bare
    default = re.sub(r"<[^>]*>", "...", repr(value.default))
    return f"{bare} = {default}" if ":" in bare else f"{bare}={default}"


def _arguments(name: str, item: Any) -> str:
    rows = [(key, meaning(name, key) or "See above.") for key in arguments_of(item)]
    told = [f"| `{key}` | {words.replace('|', chr(92) + '|')} |" for key, words in rows]
    return "\n".join(["| argument | meaning |", "|---|---|", *told, ""]) if told else ""


def _members(item: Any, told: dict[object, str]) -> str:
    """Properties as a list, methods as entries with arguments, and where inherited methods are documented."""
    if not inspect.isclass(item):
        return ""
    found = members_of(item)
    lines = [f"- **`{name}`**: {first(inspect.getdoc(value) or '')}" for name, value in found if not callable(value)]
    again = []
    for name, value in found:
        full, body = f"{item.__name__}.{name}", getattr(value, "__func__", value)
        if callable(value) and told.setdefault(body, full) == full:
            lines += ["", f"### {full}", "", "```python", signature(name, value), "```", ""]
            lines += [markdown(inspect.getdoc(value) or "", arguments_of(value)), "", *_explained(full, value)]
            lines += ["", _returned(value)]
        elif callable(value):
            again.append(f"`{told[body]}`")
    if again:
        lines += ["", f"Also, as described above: {', '.join(again)}."]
    places = _public_anchors()
    names = [kind.__name__ for kind in _bases(item, documented=True)]
    bases = [_link(name, places[name]) if name in places else f"`{name}`" for name in names]
    if bases:
        lines += ["", f"It has the methods of {' and '.join(bases)}, too."]
    return "\n".join([*lines, ""]) if lines else ""


def _explained(name: str, method: Any) -> list[str]:
    """The arguments of a method as a list: most have one or two."""
    return [f"- `{key}`: {words}" for key in arguments_of(method) if (words := meaning(name, key))]


def source_read(app: object, docname: str, source: list[str]) -> None:
    """Sphinx's hook: put the reference in place of its mark."""
    source[0] = MARK.sub(lambda found: page(found[1]), source[0])


def _is_module(module: ModuleType, name: str) -> bool:
    return inspect.ismodule(getattr(module, name))
