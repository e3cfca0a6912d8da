"""Errors of the room `query` name options in a terminal: every argument they name is carried as one, and translated."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import tacit.query
from command import Command
from tacit.core.errors import Argument, BadInput
from tacit.query.conditions import condition

pytest.importorskip("ibis")
from tacit.cli import querying

ROOM = Path(tacit.query.__file__).parent
ERRORS = {"BadInput", "Mismatch", "NotFinished"}
OPTIONS = set(inspect.signature(querying.query).parameters)
KNOWN = OPTIONS | set(querying.WRITTEN) | querying.PYTHON_ONLY
PYTHON = re.compile(rf"\b({'|'.join(sorted(OPTIONS))})\s*=|\b[a-z]+_[a-z_]+\b")
"""An argument in the form of Python, or any name with an underscore: no option looks like that."""
NO_ARGUMENTS = {"client_encoding", "default_collation", "group_by", "user_id"}
"""Settings of engines, a method that the command does not call with nothing, a column of an example."""


def calls(text):
    """(function's name, its node) of every call in a source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def named(text):
    """Arguments that errors carry, and those that the checks of core are given by name."""
    firsts = [(name, node.args[0]) for name, node in calls(text) if node.args]
    wanted = [first for name, first in firsts if name == "Argument" or name.startswith("check.")]
    return {first.value for first in wanted if isinstance(first, ast.Constant) and isinstance(first.value, str)}


def unmarked(text):
    """Plain texts of errors that name an argument all the same."""
    for name, node in calls(text):
        if name in ERRORS:
            inside = {id(part) for other, call in calls_in(node) if other == "Argument" for part in ast.walk(call)}
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and id(part) not in inside]
            found = [match[0] for text in texts if isinstance(text, str) for match in PYTHON.finditer(text)]
            yield from (word for word in found if word not in NO_ARGUMENTS)


def calls_in(node):
    return [(ast.unparse(part.func), part) for part in ast.walk(node) if isinstance(part, ast.Call)]


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.stem)
def test_every_argument_is_an_option_and_none_is_written_by_hand(path):
    text = path.read_text(encoding="utf-8")
    phrases = {name for name in named(text) if " " in name}
    assert named(text) - phrases - KNOWN == set()
    assert list(unmarked(text)) == []


def test_the_check_can_fail():
    assert named('BadInput(("Give ", Argument("unheard")))') == {"unheard"}
    assert list(unmarked('BadInput("x", fix="Give unit=7 or lower max_rows.")')) == ["unit=", "max_rows"]
    assert list(unmarked('BadInput(("Give ", Argument("unit", "user_id")), fix="Rename it.")')) == []


def test_an_argument_has_two_forms():
    error = BadInput(("x needs ", Argument("bounds", ("lower", "upper"))), fix=("Or ", Argument("unit", "a b"), "."))
    assert str(error) == 'x needs bounds=(lower, upper) Or unit="a b".'
    error.rename(querying.option)
    assert str(error) == error.args[0] + " " + error.fix == "x needs --bounds lower,upper Or --unit 'a b'."
    assert [querying.option(Argument(name)) for name in ("max_rows", "k", "bins")] == [
        "--max-rows",
        "K of --top",
        "bins",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count"], "--unit user_id"),
        (
            ["--unit", "row", "--mean", "age"],
            "--bounds lower,upper that are known without the data, a range in --schema",
        ),
        (["--unit", "row", "--count", "--by", "city"], "--keys (all that should be released), words in --schema"),
        (["--unit", "row", "--count", "--max-groups", "0"], "--max-groups must be a whole number"),
        (["--unit", "row", "--top", "city:3", "--keys", "a,b"], "K of --top must be at most"),
        *((["--unit", "row", "--top", f"city:{k}"], "--top takes a column and a whole number") for k in ("inf", "2.7")),
        (["--unit", "row", "--top", "city:3", "--by", "city"], "Use --where instead of --by"),
        (["--unit", "row", "--count", "--quantile", "age:0.5"], "--quantile is asked for alone"),
        (["--unit", "row", "--count", "--edges", "1,2"], "Give --histogram"),
        (["--unit", "row", "--count", "--by", "city", "--keys", "cities.txt"], "cities.txt, and there is no such file"),
        (["--unit", "row", "--mean", "age", "--bounds", "9,1"], "--bounds must be finite, lower before upper"),
        (["--unit", "row", "--count", "--where", "age >> 60"], "column, sign, value"),
        (["--unit", "row", "--count", "--where", "age > 60 and city = a"], "one comparison"),
    ],
)
def test_the_command_says_what_to_type(words, said, capsys, monkeypatch, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("age,city\n30,a\n40,b\n", encoding="utf-8")
    status, _, err = Command(capsys, monkeypatch)("query", str(table), *words, "--epsilon", "1")
    assert (status, said in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count"], ("confidence", "95% for each number, noise only")),
        (["--quantile", "age:0.5", "--bounds", "0,99"], ("error", "depends on the data")),
        (["--top", "city:1", "--keys", "a,b"], ("confidence", "95%: values are places; each word has at most")),
    ],
)
def test_the_confidence_is_that_of_what_is_shown(words, said, capsys, monkeypatch, tmp_path):
    """A place among words has no noise, and the error of a quantile is not known: neither is within anything."""
    table = tmp_path / "people.csv"
    table.write_text("age,city\n30,a\n40,b\n", encoding="utf-8")
    asked = ("query", str(table), "--unit", "row", *words, "--epsilon", "1", "--seed", "1")
    status, out, _ = Command(capsys, monkeypatch)(*asked)
    line = next(line for line in out.splitlines() if line.startswith(said[0]))
    assert status == 0
    assert said[1] in line


@pytest.mark.parametrize(
    "text", ["age >> 60", "age => 6", "age > > 6", "a = b = c", "a > 1 AND b < 2", "a = x or b", "a <"]
)
def test_a_condition_that_would_be_misread_is_refused(text):
    """`age >> 60` was compared with the text "> 60": a wrong count without a word."""
    with pytest.raises(BadInput):
        condition(text)


@pytest.mark.parametrize(
    "text", ["age>60", "`a b` != x", "a = 'b and c'", 'a = "<5"', "a = sand or", "a >= -3.5", "a = 5!"]
)
def test_a_condition_that_is_clear_is_taken(text):
    assert condition(text)


def test_answers_stand_in_columns_above_what_they_cost(capsys, monkeypatch, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("age,city\n" + "30,a\n" * 1200 + "40,longer\n", encoding="utf-8")
    words = ("query", str(table), "--unit", "row", "--count", "--by", "city", "--keys", "a,longer", "--epsilon", "100")
    _, out, _ = Command(capsys, monkeypatch)(*words, "--seed", "1")
    lines = out.splitlines()
    assert lines[0].split() == ["city", "count"]
    assert [line[:6].rstrip() for line in lines[1:3]] == ["a", "longer"]
    assert lines[1][8:].lstrip().startswith("1,200 +- ")
    assert len({len(line) for line in lines[:3]}) == 1
    assert lines[3] == ""
