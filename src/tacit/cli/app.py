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
import os
import sys
import time
import traceback
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from .options import given_option, in_options, in_words

if typing.TYPE_CHECKING:
    from ..core.errors import Argument, TacitError
    from ..core.json_text import Json

VERBS = {
    "init": ("init", "Describe a table: write a schema and a run file that works at once."),
    "epsilon": ("accounting", "Certified epsilon of an event, or of Gaussian training."),
    "calibrate": ("accounting", "The least noise, or the largest rate or number of steps, that meets a target."),
    "plan": ("accounting", "A plan of private training that meets (epsilon, delta)."),
    "train": ("training", "Train a model with differential privacy and write its weights and its evidence."),
    "predict": ("predicting", "Predict for new records with a model that tacit has trained."),
    "attack": ("attacking", "Measure membership inference against a model, or read it off a file of scores."),
    "gap": ("gap", "Leakage against the generalisation gap: one training at several settings, each attacked."),
    "disclose": ("disclosing", "Say what a query log or a table gives away: differencing, uniqueness, reconstruction."),
    "audit": ("auditing", "Test a privacy claim about somebody's training or mechanism."),
    "bracket": ("bracketing", "Attack, audit and account for one training: epsilon from both sides, in one report."),
    "pate": (
        "pate",
        "Train teachers on disjoint shards, answer public queries by noisy votes, and teach a student.",
    ),
    "report": ("reporting", "Write one self-contained page from evidence files."),
    "verify": ("auditing", "Recompute every bound of an evidence file from its events and counts; needs no data."),
    "query": ("querying", "Answer a question about a table privately: counts, sums, means, histograms."),
    "ledger": ("ledger", "Keep a budget of privacy: init, show, verify or export one; allot parts of it."),
    "quickstart": ("reporting", "The whole flow on embedded data: train two models, attack, audit and report."),
    "doctor": ("doctor", "Say what is installed and, for a model, the clipping rule of every parameter."),
}
"""Each verb's module, imported when the verb is used (numpy alone costs more than a page of help), and its help."""
GROUPS = {"ledger": "command"}
"""Verbs that have verbs of their own, and the function of their module that makes the command."""
EXAMPLES = {
    "init": "Example: tacit init people.csv --label ill --range age=0,120; then tacit train people.run.toml --out "
    "people; then tacit bracket people.",
    "epsilon": "Example: tacit epsilon --noise-multiplier 1.1 --rate 0.01 --steps 1000 --delta 1e-5",
    "calibrate": "Example: tacit calibrate --epsilon 3 --rate 0.01 --steps 1000 --delta 1e-5",
    "plan": "Example: tacit plan --records 60000 --epsilon 3 --delta 1e-5",
    "gap": "Example: tacit gap run.toml --out gap draws gap.svg; docs/attacks.md has a run file.",
    "verify": "Example: tacit verify people-bracket/evidence.json",
    "doctor": "Example: tacit doctor mymodule:make_model",
    "train": "tacit init writes a run file for your table; docs/tour.md says what else one may hold.",
    "predict": "Example: tacit train people.run.toml --out people; then tacit predict people newcomers.csv --keep id",
    "bracket": "Example: tacit train people.run.toml --out people; then tacit bracket people writes "
    "people-bracket/report.html.",
    "audit": "Example: tacit audit mymodule:fit --epsilon 4 --delta 1e-5 --data people.npz",
    "attack": "Example: tacit attack --model mymodule:model --members in.csv --nonmembers out.csv --label ill",
    "disclose": "Example: tacit disclose patients.csv --columns zip,born,sex --secret illness",
    "query": "Example: tacit query visits.parquet --unit user_id --count --by city --keys Basel,Bern --epsilon 1 "
    "--ledger budget.db",
    "pate": "Example: tacit pate run.toml --out student; then tacit bracket student. docs/pate.md has a run file.",
    "report": "Example: tacit report people-bracket/evidence.json --pdf people.pdf",
}
"""What is printed under a verb's options."""
SEED = "Repeat a run exactly, for experiments. Without it randomness is cryptographic, as a release needs."
DESCRIBE = (
    "For the page, repeatable: title, owner, purpose, data, people, tuning (how settings were chosen), access (who can "
    "reach the model), earlier_releases."
)
AGAIN = "Where DIR holds a finished run, use the next free name: DIR-2 and so on."
DONE, REFUTED, BAD_INPUT, NO_ANSWER, STOPPED, UNREAD = 0, 1, 2, 3, 130, 141
STATUS_OF_VERDICT = {
    "consistent": DONE,
    "no claim": DONE,
    "refuted": REFUTED,
    "uninformative": NO_ANSWER,
    "untested": NO_ANSWER,  # of a verb that tests claims
}


class VerbCommand(TyperCommand):
    """A verb whose usage line names its arguments as they are typed, without the braces of newer versions of typer."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Verbs(TyperGroup):
    """The verbs in the order of their table, each imported on its first use."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            near = difflib.get_close_matches(cmd_name, VERBS, n=1)
            ctx.fail(f"{cmd_name!r} is not a verb.{''.join(f' Did you mean {name!r}?' for name in near)}")
        module = importlib.import_module(f".{VERBS[cmd_name][0]}", __package__)
        if cmd_name in GROUPS:
            return getattr(module, GROUPS[cmd_name])()
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
    """What a verb found: `data` for `--json`, and the exit status.

    A person sees `table`, lines that are the answer itself; then `rows` (name, value); then `lines` of sentences.
    """

    data: Json
    rows: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    status: int = DONE
    table: list[str] = field(default_factory=list)


def assumed(texts: Iterable[str]) -> list[str]:
    """One line for everything that an upper bound assumes: it is shown wherever the bound is."""
    return [f"Assumes that {text}." for text in texts]


def verb(
    name: str,
    home: typer.Typer | None = None,
    text: str = "",
    written: Callable[[Argument], str] | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Register a function that returns a Result as the command `name`; give it `--json`, and its help of the table.

    A verb of a group is registered in its `home` with the help `text`; its schema is the group's. `written` says how an
    error names an argument; else those that were given on the command line are named as their options.
    """

    def register(function: Callable[..., Result]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            as_json, debug = arguments.pop("json"), arguments.pop("debug")
            started = time.perf_counter()
            named = in_options(written or functools.partial(given_option, function, arguments))
            with reported(as_json, debug=debug), hushed(debug=debug), named:  # what foreign code prints may hold data
                result = function(**arguments)
            seconds = round(time.perf_counter() - started, 3)
            schema = name if home is None else home.info.name
            head = {"schema": f"tacit.{schema}/1", "version": __version__, "seconds": seconds}
            show({**head, **result.data} if as_json else result)
            raise typer.Exit(result.status)

        _add_json_option(run, function)
        epilog = EXAMPLES.get(name) if home is None else None
        (home or app).command(name, cls=VerbCommand, help=text or VERBS[name][1], epilog=epilog)(run)
        return run

    return register


@contextlib.contextmanager
def reported(as_json: bool, *, debug: bool = False) -> Iterator[None]:
    """Turn whatever is raised into one sentence (or one JSON object) on standard error and an exit status.

    The text of an exception that is not ours may hold data, so it is shown by kind and place; so are warnings.
    """
    from ..core.errors import FileWarning, PrivacyWarning, TacitError

    def told(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if debug or issubclass(category, PrivacyWarning | FileWarning):
            note(f"tacit: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = told
        try:
            yield
        except TacitError as error:
            fail(error, as_json=as_json)
        except (Exception, SystemExit) as error:
            if isinstance(error, typer.Exit | typer.Abort | BrokenPipeError):
                raise
            if debug:
                traceback.print_exc()
            fail(unexpected(error), as_json=as_json)


def unexpected(error: BaseException) -> TacitError:
    """One sentence for an exception of somebody else's code, or of ours where we erred."""
    from ..core.errors import NotFinished, where
    from ..core.files import why

    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _no_memory(error):
        return NotFinished("There is not enough memory.", fix="Use fewer records or a smaller model, or more memory.")
    if isinstance(error, OSError) and error.errno is not None:
        return why(Path(str(error.filename or "A file")), error)
    return NotFinished(
        f"{type(error).__name__} was raised in {where(error)}.", fix="Use --debug to see its text, which may hold data."
    )


def _no_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch says so only in the text of a RuntimeError."""
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


_streams: list[TextIO] = []


@contextlib.contextmanager
def resumable(state: Path | None, final: Path) -> Iterator[None]:
    """Say, when the operator stops the work, how it can be taken up again, if it can."""
    try:
        yield
    except KeyboardInterrupt:
        if state is not None and state.exists():
            note(f"\nWhat was done is kept. To go on, run the same command with --out {final} --resume.")
        raise


def terminal() -> TextIO:
    """Where sentences for the operator go, also while everything that foreign code prints is dropped."""
    return _streams[-1] if _streams else sys.stderr


@contextlib.contextmanager
def hushed(*, debug: bool) -> Iterator[None]:
    """Drop what foreign code prints, native code and child processes included; with `debug` it goes to standard error.

    Where the standard streams are not the process's own (tests, notebooks), only Python's are exchanged.
    """
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
        if _own_streams():
            kept = {number: os.dup(number) for number in (1, 2)}
            stack.callback(_given_back, kept)
            told = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
            _streams.append(stack.enter_context(told))
            for number in kept:
                os.dup2(2 if debug else nowhere.fileno(), number)
        else:
            _streams.append(sys.stderr)
        stack.callback(_streams.pop)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr if debug else nowhere))
        stack.enter_context(contextlib.redirect_stderr(sys.stderr if debug else nowhere))
        yield


def _own_streams() -> bool:
    try:
        return (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2)
    except (OSError, ValueError, AttributeError):
        return False


def _given_back(kept: dict[int, int]) -> None:
    for number, copy in kept.items():
        os.dup2(copy, number)
        os.close(copy)


def fail(error: TacitError, *, as_json: bool) -> typing.NoReturn:
    """Say what went wrong and leave."""
    from ..core.errors import BudgetExceeded, NotFinished, clean

    if as_json:
        body = {"code": error.code, "message": error.message, "fix": error.fix}
        print(json_module.dumps({"schema": "tacit.error/1", "error": body}), file=sys.stderr)
    else:
        print(f"tacit: {clean(str(error))}", file=sys.stderr)
    raise typer.Exit(NO_ANSWER if isinstance(error, NotFinished | BudgetExceeded) else BAD_INPUT)


def show(found: Result | dict[str, object]) -> None:
    """Print JSON; or the table and a blank line, names with their values, and sentences."""
    if not isinstance(found, Result):
        print(json_module.dumps(found, allow_nan=False))
        return
    from ..core.errors import clean

    width = max((len(name) for name, _ in found.rows), default=0)
    rows = [f"{name:<{width}}  {value}".rstrip() for name, value in found.rows]
    blocks = [block for block in (found.table, rows) if block]
    for block in blocks[:-1]:
        print(clean("\n".join(block)), end="\n\n")
    for line in [*(blocks[-1] if blocks else []), *found.lines]:
        print(clean(line))


def note(text: str) -> None:
    """A sentence for the person who waits."""
    from ..core.errors import clean

    print(clean(text), file=terminal(), flush=True)


def main() -> None:
    """The command `tacit`; a mistake in the options is bad input like any other."""
    usage_error: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    command = typer.main.get_command(app)
    try:
        status = command.main(sys.argv[1:] or ["--help"], prog_name="tacit", standalone_mode=False)
    except usage_error as error:
        sentence = " ".join(str(error.format_message()).split()) or "A verb is missing"
        from ..core.errors import BadInput

        sentence = in_words(sentence)
        sentence = sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
        with contextlib.suppress(typer.Exit):
            where = getattr(error, "ctx", None)  # the verb's own help says what it takes
            verb_ = "tacit" if where is None else where.command_path
            fail(BadInput(sentence, fix=f"See {verb_} --help."), as_json="--json" in sys.argv)
        sys.exit(BAD_INPUT)
    except typer.Exit as leave:
        status = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        status = STOPPED
    except SystemExit as leave:  # typer's status for a pipe that nobody reads is 1, which would say: refuted
        sys.exit(UNREAD if leave.code == 1 else leave.code)
    if status == STOPPED:  # typer has made a status of the interrupt, as a rule
        note("\ntacit: stopped." if sys.stderr.isatty() else "tacit: stopped.")
    sys.exit(status or DONE)


def _add_json_option(run: Any, function: Callable[..., Any]) -> None:
    """Typer reads signatures: resolve the function's own, and add the option."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = [item.replace(annotation=hints[key]) for key, item in inspect.signature(function).parameters.items()]
    option = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
    debug = Annotated[bool, typer.Option("--debug", help="Show errors and prints whole; they may hold data.")]
    only = inspect.Parameter.KEYWORD_ONLY
    more = {"json": option, "debug": debug}
    added = [inspect.Parameter(name, only, default=False, annotation=kind) for name, kind in more.items()]
    del run.__wrapped__
    run.__signature__ = inspect.Signature([item.replace(kind=only) for item in parameters] + added)
    run.__annotations__ = {**hints, **more, "return": None}
