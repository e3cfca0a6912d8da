"""A real PostgreSQL server for tests: in a folder of its own, on a socket there, run by an unprivileged user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def binaries() -> Path | None:
    """Where initdb and pg_ctl are: Debian keeps them out of the path."""
    found = shutil.which("initdb")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places += [Path(found).parent] if found else []
    return next(
        (place for place in places if all((place / name).exists() for name in ("initdb", "pg_ctl", "psql"))), None
    )


def present() -> bool:
    return binaries() is not None


def _user() -> str | None:
    """The server refuses to run as root; another user takes its place there."""
    if os.geteuid() != 0:
        return None
    return next((name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()}), None)


class Server:
    """A running server; `url` names its database, `stop` and `start` cut all connections."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user = folder, _user()
        self._bin = binaries()
        assert self._bin is not None
        if self.user is not None:
            shutil.chown(folder, self.user)

    def run(self, program: str, *words: str) -> None:
        command = [str(self._bin / program), *words]
        if self.user is not None:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", *command]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.folder)}
        subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment, cwd=self.folder)

    def make(self) -> None:
        self.run("initdb", "-D", str(self.folder / "data"), "-U", "tacit", "-A", "trust", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c max_connections=100"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", mode, "-w", "stop")

    def fresh(self, name: str) -> str:
        """The URL of a new, empty schema."""
        self.run("psql", "-h", str(self.folder), "-U", "tacit", "-c", f"CREATE SCHEMA {name}", "postgres")
        return f"postgresql://tacit@/postgres?host={self.folder}&options=-csearch_path%3D{name}"


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Start a server, and stop it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="tacit-pg-", ignore_cleanup_errors=True) as folder:
        made = Server(Path(folder))
        made.make()
        try:
            yield made
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                made.stop("immediate")
