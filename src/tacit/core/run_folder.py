"""The folder of one run: its results appear in it together or not at all, and it belongs to that run alone.

While a run lasts, everything it writes lies beside the folder DIR, in DIR.unfinished: a lock, a checkpoint or journal,
and at the end the results. When all results are on disk, with a manifest of their hashes, one rename puts them in DIR's
place. Only then are checkpoint, journal and lock destroyed. A process that dies at any moment leaves either no DIR and
what is needed to go on, or DIR with all results.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import BadInput
from .files import shown, why
from .locks import Lock
from .manifest import MANIFEST, manifest

UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class RunFolder:
    """`final` is DIR, `work` is DIR.unfinished, `state` the checkpoint or journal in it (None: nothing to resume)."""

    final: Path
    work: Path
    state: Path | None

    @property
    def results(self) -> Path:
        """Where results are written before they appear in `final`; made when it is asked for."""
        folder = self.work / "results"
        with _told(folder):
            folder.mkdir(exist_ok=True)
        return folder

    def commit(self, verb: str) -> None:
        """Put all results on disk and then, by one rename, in their place; afterwards destroy what led to them."""
        folder = self.results
        with _told(self.final):
            (folder / MANIFEST).write_text(manifest(folder, verb), encoding="utf-8")
            for path in [*folder.iterdir(), folder, self.work]:
                _sync(path)
            if self.final.is_dir() and os.name == "nt":
                self.final.rmdir()
            folder.replace(self.final)
            _sync(self.final.absolute().parent)
        sweep(self.work)

    def abandon(self) -> None:
        """After a failure: what could be resumed stays, anything else goes."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.work / "results", ignore_errors=True)
            if self.state is None or not self.state.exists():
                sweep(self.work)


@contextlib.contextmanager
def run_folder(
    path: str | Path, *, state: str | None = None, resume: bool = False, again: bool = False
) -> Iterator[RunFolder]:
    """Hold DIR for one run. Refused: a folder in use, one that holds something, a resume with nothing to resume.

    `state` names the checkpoint or journal of verbs that can be resumed. `again` takes the next free name, DIR-2 and so
    on, where DIR holds something already. A failure inside leaves what can be resumed, and nothing else.
    """
    final = Path(path)
    if again:
        final = next(found for found in _names(final) if _free(found) and not _work(found).exists())
    work = _work(final)
    _check_place(final)
    if not _free(final):
        _forget(work)
        raise _taken(final, resume=resume)
    if resume and (state is None or not (work / state).exists()):
        raise BadInput(f"There is nothing to resume for {final}.", fix="Leave --resume out to start a run.")
    with _told(work):
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Lock(work / "lock", f"{final} is being written by another run."):
        if not _free(final):
            sweep(work)
            raise _taken(final, resume=resume)
        held = RunFolder(final, work, None if state is None else work / state)
        if held.state is not None and held.state.exists() and not resume:
            raise BadInput(
                f"{held.state} is there from a run that did not end.", fix=f"Use --resume, or delete {work}."
            )
        shutil.rmtree(work / "results", ignore_errors=True)
        try:
            yield held
        except BaseException:
            held.abandon()
            raise


def sweep(work: Path) -> None:
    """Overwrite and remove everything in a folder of unfinished work: it holds secrets."""
    lock = work / "lock"
    for path in sorted((path for path in work.rglob("*") if path != lock), reverse=True):
        if path.is_dir():
            path.rmdir()
            continue
        with contextlib.suppress(OSError), path.open("r+b") as file:
            file.write(bytes(min(path.stat().st_size, 2**30)))
            file.flush()
            os.fsync(file.fileno())
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)  # last: whoever takes it next finds the folder empty
        work.rmdir()


def _forget(work: Path) -> None:
    """Secrets of a run that ended while it was destroying them; not those of one that is still at it."""
    if work.is_dir():
        with contextlib.suppress(BadInput), Lock(work / "lock", ""):
            sweep(work)


def _work(final: Path) -> Path:
    return _beside(final, UNFINISHED)


def _beside(final: Path, ending: str) -> Path:
    """The folder of the same name with something added to it."""
    whole = final if final.name not in ("", "..") else Path(os.path.abspath(final))  # noqa: PTH100
    return whole.with_name(whole.name + ending)


def _names(final: Path) -> Iterator[Path]:
    yield final
    for number in range(2, 10_000):
        yield _beside(final, f"-{number}")


def _free(final: Path) -> bool:
    """Not there, or an empty folder."""
    return not os.path.lexists(final) or (final.is_dir() and not any(final.iterdir()))


def _check_place(final: Path) -> None:
    """A folder that can be made, before any work is done."""
    parents = final.absolute().parents
    there = next((parent for parent in parents if parent.exists()), None)
    if not final.absolute().name or there is None or not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"The folder {shown(str(final))} cannot be made or written to.")


def _taken(final: Path, *, resume: bool) -> BadInput:
    finished = (final / MANIFEST).is_file()
    what = "holds the results of a finished run" if finished else "is not an empty folder"
    if resume:
        return BadInput(f"{final} {what}: there is nothing to resume.", fix="Its results are whole.")
    return BadInput(
        f"{final} {what}; a folder belongs to one run.",
        fix="Give another --out, or --again.",
    )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise why(path, error) from None


def _sync(path: Path) -> None:
    """Have the operating system put a file or a folder's entries on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
