"""A page as a PDF, printed by the browser that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..core import BadInput, NotFinished

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
OFFLINE = (
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-pdf-header-footer",
)
SECONDS = 120


def print_pdf(page: str | Path, path: str | Path) -> Path:
    """Print the HTML file `page` to `path`, whole or not at all, with the page's own print layout.

    Caller ensures: the PDF of an internal page stays inside like the page itself.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise BadInput("A PDF needs Chromium, Chrome or Edge.", fix="Install one, or print the page by hand.")
    path = Path(path)
    if not path.parent.is_dir():
        raise BadInput("The PDF's folder does not exist.", fix="Make it first, or give another path.")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tacit-") as folder:
        partial = Path(folder) / "page.pdf"
        _print(browser, Path(page).resolve(), partial, Path(folder) / "profile")
        partial.chmod(Path(page).stat().st_mode & 0o666)  # a secret page stays one
        partial.replace(path)
    return path


def _print(browser: str, page: Path, partial: Path, profile: Path) -> None:
    # a browser run by root, as in a container, refuses its own sandbox; the page can load and run nothing foreign
    root = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    target = [f"--user-data-dir={profile}", f"--print-to-pdf={partial}", page.as_uri()]
    try:
        subprocess.run([browser, *OFFLINE, *root, *target], check=True, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        raise NotFinished("The browser did not print the page.", fix="Open the page and print it by hand.") from None
    if not partial.is_file():
        raise NotFinished("The browser did not print the page.", fix="Open the page and print it by hand.")
