"""For those who carry on: every rule that is cited stands in docs/soundness.md, every file that is named is there."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from tacit.attacks.registry import ATTACKS
from tacit.cli.app import VERBS
from tacit.core import Event

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tacit"
CITED = re.compile(r"soundness[ \n#*]+rules? ((?:\d+)(?:(?:, | and | to )\d+)*)", re.IGNORECASE)
RULE = re.compile(r"^### (\d+)\. ", re.MULTILINE)
FILES = [path for folder in ("src", "docs", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.*")]
TEXTS = [path for path in FILES if path.suffix in (".py", ".md") and "_build" not in path.parts]
NAMED = re.compile(r"`((?:src/tacit|tests|docs|benchmarks)/[\w/.]+\.(?:py|md|html|toml))`")
IN_ROOM = re.compile(r"`((?:core|loss|audits|attacks|study|reports|cli|train|mechanism|fleet)/[\w/]+\.py)`")


def rules():
    return [int(number) for number in RULE.findall((ROOT / "docs" / "soundness.md").read_text(encoding="utf-8"))]


def cited(text):
    return {int(number) for found in CITED.findall(text) for number in re.findall(r"\d+", found)}


def test_rules_are_numbered_from_one_without_a_gap():
    assert rules() == list(range(1, len(rules()) + 1))
    assert len(rules()) >= 30


def test_every_cited_rule_exists():
    found = {path: cited(path.read_text(encoding="utf-8")) for path in TEXTS}
    unknown = {str(path.relative_to(ROOT)): sorted(numbers - set(rules())) for path, numbers in found.items()}
    assert not {path: numbers for path, numbers in unknown.items() if numbers}
    assert len(set().union(*found.values())) >= 15


def test_a_citation_across_lines_is_seen_and_an_unknown_one_is_noticed():
    beyond = len(rules()) + 1
    assert cited("(soundness\n    rules 8 and 26)") == {8, 26}
    assert cited(f"soundness rule {beyond}") - set(rules()) == {beyond}


def test_make_test_installs_every_extra_that_a_public_name_may_need():
    """The reference imports all public names: without an extra of theirs, `make test` and `make docs` would stop."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    def reached(extra):
        named = [re.fullmatch(r"tacit\[(.*)\]", need) for need in extras[extra]]
        return {extra}.union(*(reached(part) for found in named if found for part in found[1].split(",")))

    assert reached("dev") >= set(extras) - {"dev", "docs", "oracles", "quickstart"}
    assert reached("docs") >= {"all", "hf", "lightning"}


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/recipes.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(NAMED.findall(text))
    for name in named - {"src/tacit/reports/NAME.py"}:
        assert (ROOT / name).is_file(), name
    for name in IN_ROOM.findall(text):
        assert (SOURCE / name).is_file(), name


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_module_that_a_page_names_is_there(page):
    """By its place, or by the end of its place in src/tacit: decisions named files where they were before a move."""
    named = set(re.findall(r"`([\w./-]+/\w+\.py)`", page.read_text(encoding="utf-8"))) - {"src/tacit/reports/NAME.py"}
    places = [f"/{path.relative_to(ROOT)}" for path in SOURCE.rglob("*.py")]
    lost = {name for name in named if not (ROOT / name).is_file() and not any(p.endswith(f"/{name}") for p in places)}
    assert not lost


def test_the_recipes_name_what_the_code_has():
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    for name, path in (
        ("RELEASES", "tests/mechanism_releases.py"),
        ("KINDS", "tests/event_examples.py"),
        ("EXAMPLES", "tests/event_examples.py"),
        ("UNSUPPORTED", "tests/event_examples.py"),
        ("ZOO", "tests/train_zoo.py"),
        ("DRAWS", "src/tacit/train/sample/draw.py"),
        ("VERBS", "src/tacit/cli/app.py"),
        ("FAMILIES", "src/tacit/audits/bounds/methods.py"),
    ):
        assert f"`{name}`" in text
        assert re.search(rf"^{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name
    assert ATTACKS
    assert VERBS
    assert Event.registry


def test_architecture_names_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in SOURCE.glob("*/__init__.py"):
        assert f"\n| `{room.parent.name}` |" in text, room.parent.name
    drawn = re.findall(r'class="t"[^>]*>([^<]+)<', (ROOT / "docs/images/rooms.svg").read_text(encoding="utf-8"))
    assert {name for names in drawn for name in names.split(", ")} == {
        room.parent.name for room in SOURCE.glob("*/__init__.py")
    }


def test_architecture_names_every_folder_of_a_room():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [path for path in SOURCE.glob("*/*") if path.is_dir() and path.name != "__pycache__"]
    assert len(folders) >= 8
    for folder in folders:
        assert f"\n| `{folder.parent.name}/{folder.name}` |" in text, folder


def built(name):
    """A module of docs, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas, terms = built("formulas"), built("terms")


@pytest.mark.parametrize(
    ("written", "drawn"),
    [
        ("w_j g(x − j)", "w<sub>j</sub> g(x − j)"),
        ("H_{K e^{−l}}(P₂)", "H<sub>K e<sup>−l</sup></sub>(P₂)"),
        ("(P − K Q)_+. Kinks: t_{i−1}(K)", "(P − K Q)<sub>+</sub>. Kinks: t<sub>i−1</sub>(K)"),
        ("e^(−(y−kj)²/2u)", "e<sup>−(y−kj)²/2u</sup>"),
        ("2^−130 c_max", "2<sup>−130</sup> c<sub>max</sub>"),
        ("`steps.lower_step` and [a](b_c.md)", "`steps.lower_step` and [a](b_c.md)"),
        ("so\n\n    a < 1,\n    b^2\n\nand", 'so\n\n<div class="formula">a &lt; 1,<br>b<sup>2</sup></div>\n\nand'),
    ],
)  # fmt: skip
def test_formulas_have_subscripts_and_powers(written, drawn):
    """Markdown took `)_+. Kinks: t_` for emphasis, and both underscores were lost on the page."""
    assert formulas.drawn(written) == drawn


def test_formulas_of_the_lectures_leave_code_alone():
    source = ["e^ε and\n\n```python\ndef f(a_b):\n\n    return a^2\n```\n\n| e^(kε) |"]
    formulas.source_read(None, "lectures", source)
    drawn = "e<sup>ε</sup> and\n\n```python\ndef f(a_b):\n\n    return a^2\n```\n\n| e<sup>kε</sup> |"
    assert source == [drawn]


@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs" / "proofs").glob("*.md")), ROOT / "docs" / "lectures.md"],
    ids=lambda page: page.stem,
)
def test_links_to_the_glossary_keep_their_address_where_formulas_are_drawn(page):
    """`#word-noise_multiplier` became `#word-noise<sub>m</sub>ultiplier`, which is nowhere."""
    source = [page.read_text(encoding="utf-8")]
    name = "lectures" if page.stem == "lectures" else f"proofs/{page.stem}"
    terms.source_read(None, name, source)
    linked = re.findall(r"<a [^>]*>", source[0])
    formulas.source_read(None, name, source)
    assert linked
    assert re.findall(r"<a [^>]*>", source[0]) == linked


def test_pages_need_nothing_from_elsewhere():
    """TeX would make every reader of the site load a script from a server of others."""
    for path in TEXTS:
        if path.suffix == ".md":
            assert not re.search(r"\\(varepsilon|delta|frac|sum|le)\b", path.read_text(encoding="utf-8")), path.name
