"""The suite itself: what is absent is dropped and named, by workers too, and is a failure where it is required."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
TEST = "import pytest\n@pytest.mark.needs('nowhere')\ndef test_absent(): assert False\ndef test_here(): pass\n"
TWO = pytest.param(("-n", "2"), "", 0, marks=pytest.mark.slow)


@pytest.mark.parametrize(("options", "required", "status"), [((), "", 0), TWO, ((), "nowhere", 4)])
def test_what_is_absent(tmp_path, options, required, status):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "TACIT_REQUIRE": required}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    said = "deselected: needs something that is not here" in done.stdout and "nowhere      1 tests" in done.stdout
    assert said if status == 0 else "TACIT_REQUIRE names what is not here: nowhere" in done.stderr
