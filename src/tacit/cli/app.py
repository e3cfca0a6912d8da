"""How every verb runs: a result on standard output, sentences on standard error, an exit status that means something.

Status 0: done, and consistent where a claim was tested. 1: refuted. 2: bad input, nothing written.
3: no answer to rely on.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import json as json_module
import sys
import time
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__

if typing.TYPE_CHECKING:
    from ..core.errors import TacitError

VERBS = {
    "epsilon": ("accounting", "Certified epsilon of an event, or of Gaussian training."),
    "calibrate": ("accounting", "The least noise, or the largest rate or number of steps, that meets a target."),
    "plan": ("accounting", "A plan of private training that meets (epsilon, delta)."),
    "train": ("training", "Train a model with differential privacy and write its weights and its evidence."),
    "attack": ("measuring", "Measure membership inference against a model, or read it off a file of scores."),
    "audit": ("auditing", "Test a privacy claim about somebody's training or mechanism."),
    "bracket": ("bracketing", "Attack, audit and account for one training: epsilon from both sides, in one report."),
    "report": ("reporting", "Write one self-contained page from evidence files."),
    "verify": ("auditing", "Recompute every bound of an evidence file from its events and counts; needs no data."),
    "quickstart": ("reporting", "The whole flow on embedded data: train two models, attack, audit and report."),
    "doctor": ("doctor", "Say what is installed and, for a model, the clipping rule of every parameter."),
}
"""Each verb's module, imported when the verb is used (numpy alone costs more than a page of help), and its help."""
DONE, REFUTED, BAD_INPUT, NO_ANSWER, STOPPED = 0, 1, 2, 3, 130
STATUS_OF_VERDICT = {"consistent": DONE, "no claim": DONE, "refuted": REFUTED, "uninformative": NO_ANSWER}


class Verbs(TyperGroup):
    """The verbs in the order of their table, each imported on its first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            near = difflib.get_close_matches(cmd_name, VERBS, n=1)
            ctx.fail(f"{cmd_name!r} is not a verb.{''.join(f' Did you mean {name!r}?' for name in near)}")
        importlib.import_module(f".{VERBS[cmd_name][0]}", __package__)
        info = next(info for info in app.registered_commands if info.name == cmd_name)
        return typer.main.get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


app = typer.Typer(
    name="tacit",
    cls=Verbs,
    help="Private machine learning from both sides: prove an upper bound on epsilon, demonstrate a lower one, "
    "show both in one report.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit(DONE)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@dataclass(frozen=True)
class Result:
    """What a verb found: `data` for `--json`, `rows` (name, value) and `lines` for a person, and the exit status."""

    data: dict[str, Any]
    rows: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    status: int = DONE


def verb(name: str) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Register a function that returns a Result as the command `name`; give it `--json`, and its help of the table."""

    def register(function: Callable[..., Result]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            as_json = arguments.pop("json")
            started = time.perf_counter()
            with reported(as_json), contextlib.redirect_stdout(sys.stderr):  # what foreign code prints is no result
                result = function(**arguments)
            seconds = round(time.perf_counter() - started, 3)
            head = {"schema": f"tacit.{name}/1", "version": __version__, "seconds": seconds}
            show({**head, **result.data} if as_json else result)
            raise typer.Exit(result.status)

        _add_json_option(run, function)
        app.command(name, help=VERBS[name][1])(run)
        return run

    return register


@contextlib.contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Turn the error tree into one sentence (or one JSON object) on standard error and an exit status; warnings too."""
    from ..core.errors import TacitError

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **more: note(f"tacit: {message}")
        try:
            yield
        except TacitError as error:
            fail(error, as_json=as_json)


def fail(error: TacitError, *, as_json: bool) -> typing.NoReturn:
    """Say what went wrong and leave."""
    from ..core.errors import BudgetExceeded, NotFinished

    if as_json:
        body = {"code": error.code, "message": error.message, "fix": error.fix}
        print(json_module.dumps({"schema": "tacit.error/1", "error": body}), file=sys.stderr)
    else:
        print(f"tacit: {error}", file=sys.stderr)
    raise typer.Exit(NO_ANSWER if isinstance(error, NotFinished | BudgetExceeded) else BAD_INPUT)


def show(found: Result | dict[str, Any]) -> None:
    """Print JSON, or a small two-column table and lines."""
    if not isinstance(found, Result):
        print(json_module.dumps(found, allow_nan=False))
        return
    if found.rows:
        width = max(len(name) for name, _ in found.rows)
        for name, value in found.rows:
            print(f"{name:<{width}}  {value}".rstrip())
    for line in found.lines:
        print(line)


def note(text: str) -> None:
    """A sentence for the person who waits."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """The command `tacit`; a mistake in the options is bad input like any other."""
    usage_error = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    command = typer.main.get_command(app)
    try:
        status = command.main(sys.argv[1:] or ["--help"], prog_name="tacit", standalone_mode=False)
    except usage_error as error:
        sentence = " ".join(str(error.format_message()).split()) or "A verb is missing"  # type: ignore[attr-defined]
        from ..core.errors import BadInput

        sentence = sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
        with contextlib.suppress(typer.Exit):
            fail(BadInput(sentence, fix="See tacit --help."), as_json="--json" in sys.argv)
        sys.exit(BAD_INPUT)
    except typer.Exit as leave:
        status = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        status = STOPPED
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    if status == STOPPED:  # typer has made a status of the interrupt, as a rule
        note("\ntacit: stopped." if sys.stderr.isatty() else "tacit: stopped.")
    sys.exit(status or DONE)


def _add_json_option(run: Any, function: Callable[..., Any]) -> None:
    """Typer reads signatures: resolve the function's own, and add the option."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = [item.replace(annotation=hints[key]) for key, item in inspect.signature(function).parameters.items()]
    option = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
    json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
    del run.__wrapped__
    run.__signature__ = inspect.Signature([item.replace(kind=json.kind) for item in parameters] + [json])
    run.__annotations__ = {**hints, "json": option, "return": None}
