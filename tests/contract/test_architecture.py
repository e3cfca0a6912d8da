"""The front door and the walls: what `import tacit` costs, what it offers, which room may import which."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).resolve().parents[2]
ROOMS = sorted(path.parent.name for path in (ROOT / "src" / "tacit").glob("*/__init__.py"))


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_quick_and_imports_nothing_heavy():
    """Best of five, in CPU seconds of the import alone: at most 0.15."""
    code = (
        "import time; t = time.process_time(); import tacit; print(time.process_time() - t); import sys; "
        "print(sorted({'numpy', 'scipy', 'torch', 'typer'} & set(sys.modules)))"
    )
    runs = [fresh(code).splitlines() for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) <= 0.15
    assert {heavy for _, heavy in runs} == {"[]"}


def test_all_is_exact_and_sorted():
    assert tacit.__all__ == sorted(set(tacit.__all__))
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    assert dir(tacit) == tacit.__all__
    with pytest.raises(AttributeError):
        tacit.nonsense


def test_type_checkers_see_every_public_name():
    """The names that are imported on first use, and those in the block for type checkers, are the same."""
    tree = ast.parse((ROOT / "src" / "tacit" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {*tacit.__all__, "disclosure", "erm", "query", "train"} - {"__version__"}
    assert (ROOT / "src" / "tacit" / "py.typed").exists()


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_lists_what_it_offers(room):
    module = import_module(f"tacit.{room}")
    assert module.__doc__
    assert module.__all__ == sorted(set(module.__all__))
    assert all(name in dir(module) for name in module.__all__)


def test_a_verb_is_never_a_module():
    for name in ("attack", "audit", "bracket", "calibrate", "epsilon", "fit", "plan", "private", "report", "verify"):
        assert callable(getattr(tacit, name))


def test_the_theory_rooms_work_without_torch():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "sklearn", "altair"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import tacit
release = lambda data, rng: data + rng.laplace()
evidence = tacit.audit_mechanism(release, (0, 1), claim=(1.0, 0.0), runs=200, rng=1)
print(tacit.epsilon(noise_multiplier=1.0, delta=1e-5).upper > 4, evidence.verdict)
"""
    assert fresh(code).startswith("True")


def test_the_arrows_between_rooms():
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-1500:]


def modules():
    return sorted((ROOT / "src" / "tacit").rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT / "src" / "tacit")))
def test_modules_stay_small_and_say_what_they_are(path):
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "a module says in one line what it is"
    assert len(text.splitlines()) <= 400, "which two things is this?"


def test_what_is_not_installed_is_said_with_the_command_that_installs_it():
    code = "import sys; sys.modules['torch'] = None; import tacit\ntry: tacit.fit\n"
    assert fresh(code + "except tacit.MissingExtra as e: print(e.command)") == "pip install 'tacit[torch]'"
