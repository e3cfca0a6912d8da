"""The pages tell the truth: their blocks run and print what is shown, commands parse, links and names hold."""

import importlib.util
import math
import re
import shlex
import sys
import warnings

import pytest
import typer

import tacit
import tacit.train
from command import Command
from pages import DOCS, FENCE, ROOT, blocks, played, prepared, runnable, save_files
from report_samples import plain, private
from tacit.audits import stated
from tacit.audits.games import GAMES
from tacit.cli.app import app
from tacit.study.run_file import SECTIONS

PAGES = sorted(page for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if "_build" not in page.parts)
NUMBER = re.compile(r"\d(?:[\d,]*\d)?(?:\.\d*)?(?:e[-+]?\d+)?")
GROUP = typer.main.get_command(app)
VERBS = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
NAMES = {page: str(page.relative_to(ROOT)) for page in PAGES}


ELSEWHERE = {ROOT / "README.md", DOCS / "erm.md"}
"""Pages whose blocks tests/unit/test_docs_examples.py runs, each for what it shows."""
WITH_PYTHON = [NAMES[page] for page in PAGES if page not in ELSEWHERE and runnable(page)]


def unlike(shown, real, *, numbers):
    """The first line shown that the real output has not, in order; `...` stands for anything."""
    rest = iter(real.splitlines())
    for line in shown.splitlines():
        if line.strip() != "..." and not any(agree(line, other, numbers=numbers) for other in rest):
            return line
    return None


OUTCOME = re.compile(
    r", between \S+ and \S+|, (no better than|which this sample cannot tell from) guessing( at this rate)?"
    r"|(, though better at others|; over all rates an attack does better than guessing)"
    r" \(area under the curve at least \S+, guessing has 0\.5\)"
    r"| \(the interval reaches higher because the sample is small\)|This audit would .*"
    r"|(?<=  )(chance \d|not known well:).*"
)
"""Words that hang on what an experiment found: a processor that rounds otherwise may find one record more."""


def agree(shown, real, *, numbers):
    """Equal words; equal numbers too, where asked for and nothing was left out."""
    if not numbers:
        shown, real = (OUTCOME.sub("", text) for text in (shown, real))
    words = ".*".join(re.escape(" ".join(NUMBER.sub("0", part).split())) for part in shown.split("..."))
    if not re.fullmatch(words, " ".join(NUMBER.sub("0", real).split())):
        return False
    pairs = zip(found_numbers(shown), found_numbers(real), strict=False)
    return not numbers or "..." in shown or all(math.isclose(a, b, rel_tol=2e-3) for a, b in pairs)


def found_numbers(line):
    return [float(text.replace(",", "")) for text in NUMBER.findall(line)]


def test_comparison_can_fail():
    assert unlike("a 1.0\n...\nb 2", "a 1.0\nx\nb 2", numbers=True) is None
    assert unlike("#..., each of 1,000", "#6e3fb9, each of 1,000", numbers=True) is None
    assert unlike("a 1.0", "a 1.1", numbers=True) == "a 1.0"
    assert unlike("a 1.0", "a 1.1", numbers=False) is None
    assert unlike("b 2\na 1", "a 1\nb 2", numbers=False) == "a 1"
    assert unlike("refuted", "consistent", numbers=False) == "refuted"
    assert unlike("finds 5, no better than guessing (8)", "finds 9 (8)", numbers=False) is None
    assert unlike("finds 5, no better than guessing (8)", "hides 9 (8)", numbers=False) is not None


def test_a_block_that_warns_or_raises_fails(tmp_path, monkeypatch):
    warning = "import tacit, warnings; warnings.warn('delta is large', tacit.PrivacyWarning)"
    with pytest.raises(tacit.PrivacyWarning):
        played([warning], tmp_path, monkeypatch)
    with pytest.raises(NameError):
        played(["x = 1", "print(x)", "print(y)"], tmp_path, monkeypatch)
    assert played(["x = 1", "print(x)"], tmp_path, monkeypatch) == ["", "1\n"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_python_blocks(name, tmp_path, monkeypatch):
    """Accounting gives the numbers shown; experiments (which say "at least", "finds", TPR) the words."""
    page = ROOT / name
    save_files(page, tmp_path)
    printed = played(prepared(page), tmp_path, monkeypatch)
    for block, real in zip(runnable(page), printed, strict=True):
        exact = not re.search("at least|finds|TPR|by proof", block.output)
        assert unlike(block.output, real, numbers=exact) is None, real


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_a_block_that_is_not_run_says_why(page):
    """A comment above it gives the reason, and a test or page that it names is there."""
    for block in blocks(page):
        if block.not_run:
            assert block.kind == "python"
            assert re.match(r"[a-z].{10,}", block.not_run)
            for path in re.findall(r"(?:tests|docs)/[\w/]+\.(?:py|md)", block.not_run):
                assert (ROOT / path).is_file(), path


def shell_blocks(name):
    """Those that are run: not a script, which repeats commands of the page, and not the examples, which have tests."""
    found = [block for block in blocks(DOCS / f"{name}.md") if block.commands]
    run = [block for block in found if "set -e" not in block.text and "examples." not in block.text]
    slow = re.compile("tacit (bracket|report)")
    return [pytest.param(block, marks=[pytest.mark.slow] if slow.search(block.text) else []) for block in run]


@pytest.fixture
def folder(request, tmp_path, monkeypatch):
    """Where the tour has arrived: its files, its data, and evidence of other runs, unless the block makes its own."""
    save_files(DOCS / "tour.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    code = [block.text for block in runnable(DOCS / "tour.md") if "np.sav" in block.text]
    exec(compile("\n".join(code), "tour", "exec"), {})
    if "tacit bracket" in request.node.callspec.params["block"].text:
        return tmp_path
    claim = stated(tacit.plan(899, epsilon=4.0, delta=1e-5, batch_size=180), delta=1e-5)
    for name, evidence in (("own", plain()), ("tacit-train-bracket", private().with_(claim=claim))):
        (tmp_path / name).mkdir()
        evidence.save(tmp_path / name / "evidence.json")
    return tmp_path


@pytest.mark.parametrize(
    "block", [*shell_blocks("tour"), *shell_blocks("lectures")], ids=lambda block: block.text[6:30]
)
def test_commands_run(block, folder, capsys, monkeypatch):
    """Every command ends with the status the page says and prints the rows the page shows."""
    real = ""
    for line in block.commands:
        words = shlex.split(line, comments=True)[1:]
        status, out, err = Command(capsys, monkeypatch)(*words)
        said = re.search(r"# exit status (\d)", line)
        assert status == (int(said[1]) if said else 0), err
        real += out
    assert unlike(block.output, real, numbers=False) is None, real
    settled = [line for line in block.output.splitlines() if line.startswith(("attainable", "claim  "))]
    assert unlike("\n".join(settled), real, numbers=True) is None, (
        "attainable hangs on counts alone: write the page again"
    )


def test_the_tour_quotes_its_own_bracket():
    """What the text says under the output is what the output shows."""
    text = (DOCS / "tour.md").read_text(encoding="utf-8")
    (block,) = [found.output for found in blocks(DOCS / "tour.md") if "tacit bracket tacit-train" in found.text]
    free, within = re.findall(r"shown \(runs, fleet code\) +epsilon >= (\S+)", block)
    told = " ".join(text.split())
    assert f"at least {within} if the noise has the shape that the plan says, and at least {free} whatever" in told
    assert f"by proof and at least {within} (if the noise is of the claimed kind; {free} without that)" in told


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_commands_parse(page):
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page) for line in block.commands] + re.findall(r"`(tacit [a-z][^`]*)`", text)
    for line in lines:
        verb, *words = shlex.split(re.split(r" [>|] ", line)[0], comments=True)[1:]
        assert verb in VERBS, line
        if words or line in text.splitlines():
            VERBS[verb].make_context(verb, words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_links_resolve(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_contents():
    listed = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.stem == "index" or f"\n{page.stem}\n" in listed, page.name
    assert "\nproofs/index\n" in listed
    assert "\n*\n" in (DOCS / "proofs" / "index.md").read_text(encoding="utf-8")


OTHER_NAMES = {
    "alpha", "eps", "failure_probability", "iterations", "l2_norm_clip", "max_grad_norm", "neighboring_relation",
    "num_queries", "random_seed", "sample_rate", "sampling_prob", "seed", "sigma", "significance", "target_epsilon",
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_one_name_per_quantity(page):
    """No block gives a quantity another name than the glossary's."""
    for block in blocks(page):
        if block.kind == "python":
            given = set(re.findall(r"\b(\w+)\s*=(?!=)", block.text))
            assert not given & OTHER_NAMES, block.text


def test_glossary_has_the_names():
    words = (DOCS / "glossary.md").read_text(encoding="utf-8")
    for name in ("clip_norm", "noise_multiplier", "rate", "steps", "adjacency", "confidence", "epsilon, delta", "rng"):
        assert f"| **{name}** |" in words, name


CONTRACT = (DOCS / "contract.md").read_text(encoding="utf-8")


def listed(mark):
    """First and second column of a table of the contract that stands between two marks: name, and what is named."""
    rows = CONTRACT.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0].strip().splitlines()[2:]
    cells = [row.split(" | ") for row in rows]
    return {name.strip("|[]` "): set(re.findall(r"`([^`]+)`", named)) for name, named, *_ in cells}


@pytest.mark.parametrize(
    ("row", "real"),
    [
        ("verbs", VERBS),
        ("names in `tacit`", [name for name in tacit.__all__ if name != "__version__"]),
        ("names in `tacit.events`", tacit.events.Event.registry),
        ("names in `tacit.train`", tacit.train.__all__),
        ("names in `tacit.erm`", tacit.erm.__all__),
        ("names in `tacit.mechanism`", tacit.mechanism.__all__),
        ("names in `tacit.disclosure`", tacit.disclosure.__all__),
        ("names in `tacit.query`", tacit.query.__all__),
        ("games of an audit", GAMES),
        ("sections of `run.toml`", SECTIONS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_public_names_are_those_of_the_contract(row, real):
    """A new name goes into its row of docs/contract.md."""
    (names,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", CONTRACT, re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", names)) == sorted(real)


COMMON = {"--json", "--debug", "--help"}


def options(command, name):
    """The options of a verb, or of the verbs of a group."""
    if hasattr(command, "list_commands"):
        return {key: value for each in command.list_commands(None)
                for key, value in options(command.get_command(None, each), f"{name} {each}").items()}  # fmt: skip
    return {name: {part for option in command.params for part in option.opts if part.startswith("--")} - COMMON}


def test_every_option_of_every_verb_is_in_the_contract():
    real = {key: value for name, verb in VERBS.items() for key, value in options(verb, name).items()}
    named = {verb: {part for part in parts if part.startswith("--")} for verb, parts in listed("verbs").items()}
    assert named == real


def test_every_key_of_a_run_file_is_in_the_contract():
    assert listed("sections") == {name: set(keys) for name, keys in SECTIONS.items()}


def test_not_yet_is_not_yet():
    """What docs/lectures.md calls absent is absent: move its row when it comes."""
    waiting = (DOCS / "lectures.md").read_text(encoding="utf-8").split("## Not yet")[1]
    names = set(re.findall(r"`tacit\.(\w+)`", waiting))
    assert names
    assert not names & set(tacit.__all__)
    assert not any(importlib.util.find_spec(f"tacit.{name}") for name in names)


@pytest.mark.slow
@pytest.mark.needs("sphinx")
@pytest.mark.needs("myst_parser")
@pytest.mark.needs("furo")
def test_documentation_builds(tmp_path, capfd, monkeypatch):
    """In this process, which has loaded what the reference looks at."""
    from sphinx.cmd.build import build_main

    monkeypatch.setattr(sys, "path", [*sys.path])
    with warnings.catch_warnings():
        warnings.resetwarnings()
        status = build_main(["-q", "-W", "-b", "dummy", str(DOCS), str(tmp_path)])
    assert status == 0, capfd.readouterr().err
