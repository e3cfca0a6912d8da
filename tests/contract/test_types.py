"""A user's script is checked by mypy --strict: every example of the README, and the names that must be errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = (
    "torch", "sklearn", "altair", "transformers", "lightning", "pyarrow", "narwhals", "mlflow", "ray", "triton",
    "cryptography", "duckdb", "ibis", "jinja2", "pandas", "polars", "rich", "safetensors", "scipy", "sqlalchemy",
    "tensorboard", "typer",
)  # fmt: skip
CONFIG = "[mypy]\nstrict = true\nfollow_imports = silent\n[mypy-tacit.*]\nignore_errors = true\n" + "".join(
    f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = true\n" for name in SKIPPED
)
"""Other libraries are not read: what they are to a checker is their own affair, and torch alone takes minutes. Of
tacit's functions a script sees the signatures; their bodies are what `make lint` checks."""
TABLE = """
def test_table(frame: object) -> None:
    schema = tacit.Schema((tacit.Column("age", range=(0, 120)),), groups=("age",))
    trained = tacit.fit("linear", frame, tacit.plan(1000, epsilon=3, delta=1e-5), schema=schema)
    reveal_type(tacit.fit)
    reveal_type(trained.predict(frame))
    trained.report("page.html")
    tacit.fti
"""


def checked(code, folder):
    script, config = folder / "script.py", folder / "mypy.ini"
    script.write_text(code, encoding="utf-8")
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(folder / "cache")]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run([*command, str(script)], capture_output=True, text=True, check=False, env=environment).stdout


@pytest.mark.slow
@pytest.mark.needs("mypy")
def test_readme_examples_pass_mypy_strict_and_a_typo_does_not(tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    code = "import tacit\n"
    for number, block in enumerate(blocks):
        lines = block.splitlines()
        code += f"\n\ndef example_{number}() -> None:\n" + "".join(f"    {line}\n" for line in lines)
    told = checked(code + TABLE, tmp_path)
    errors = [line for line in told.splitlines() if ": error:" in line]
    assert len(errors) == 1, told
    assert 'Module has no attribute "fti"' in errors[0]
    revealed = [line for line in told.splitlines() if "Revealed type" in line]
    assert 'is "Any"' not in " ".join(revealed)
    assert "Trained" in revealed[0]
