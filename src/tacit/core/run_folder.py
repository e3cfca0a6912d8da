"""The folder of one run: its results appear in it together or not at all, and it belongs to that run alone.

While a run lasts, everything it writes lies beside the folder DIR, in DIR.unfinished: a lock, the run's settings, a
checkpoint or journal, and at the end the results. When all results are on disk, with a manifest of their hashes, one
rename puts them in DIR's place. Only then are checkpoint, journal and lock destroyed. A process that dies at any moment
leaves either no DIR and what is needed to go on, or DIR with all results.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import BadInput, NotFinished
from .files import shown, why
from .leftovers import COMMITTED, LOCK, clean_up, forget, say_committed, sweep, sync
from .locks import Lock
from .manifest import MANIFEST, manifest
from .run_settings import FILE, Settings, check_settings, keep_settings, kept_settings

UNFINISHED = ".unfinished"
OURS = (LOCK, "results", FILE, COMMITTED)
"""What lies in DIR.unfinished and is worth nothing without a checkpoint or journal."""
SAVE = "save"
"""What is called in Python and has no options."""


@dataclass(frozen=True)
class RunFolder:
    """`final` is DIR, `work` is DIR.unfinished, `state` the checkpoint or journal in it (None: nothing to resume)."""

    final: Path
    work: Path
    state: Path | None
    verb: str = ""

    @property
    def results(self) -> Path:
        """Where results are written before they appear in `final`; made when it is asked for."""
        folder = self.work / "results"
        with _told(folder):
            folder.mkdir(exist_ok=True)
        return folder

    def commit(self) -> None:
        """Put all results on disk and then, by one rename, in their place; afterwards destroy what led to them."""
        folder = self.results
        with _told(self.final):
            text = manifest(folder, self.verb)
            (folder / MANIFEST).write_text(text, encoding="utf-8")
            for path in [*folder.iterdir(), folder]:
                sync(path)
            say_committed(self.work, text)
            sync(self.work)
            if self.final.is_dir() and os.name == "nt":
                self.final.rmdir()
            _renamed(folder, self.final, text)
        self._confirm()
        sweep(self.work)

    def _confirm(self) -> None:
        """Have the rename put on disk. Until that is certain, what led to the results is kept beside them."""
        try:
            sync(self.final.absolute().parent)
        except OSError:
            raise NotFinished(
                f"{shown(self.final)} holds the results, but the disk did not confirm that it keeps them.",
                fix="Make room and run the command again with --resume; what led to the results is kept until then.",
            ) from None

    def abandon(self) -> None:
        """Clean up after a failure: keep what a run can be resumed from, and delete anything else."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.work / "results", ignore_errors=True)
            if not _kept(self.state):
                sweep(self.work)


@contextlib.contextmanager
def run_folder(
    path: str | Path,
    verb: str,
    *,
    state: str | None = None,
    settings: Settings | None = None,
    resume: bool = False,
    again: bool = False,
) -> Iterator[RunFolder]:
    """Hold DIR for one run. Refused: a folder in use, one that holds something, a resume with nothing to resume, and
    one under other `settings` than the run began with.

    `state` names the checkpoint or journal, a file or a folder, of verbs that can be resumed. `again` takes the next
    free name, DIR-2 and so on, where DIR holds something already. A failure inside leaves what can be resumed, and
    nothing else.
    """
    final = _place(Path(path))
    if again:
        final = next(found for found in _names(final) if _free(found) and not _work(found).exists())
    work = _work(final)
    _check_place(final)
    if not _free(final):
        forget(work, final)
        raise _taken(final, work, verb, resume=resume)
    held = RunFolder(final, work, None if state is None else work / state, verb)
    if resume and not _kept(held.state):
        _check_verb(held)
        raise BadInput(f"There is nothing to resume for {final}.", fix="Leave --resume out to start a run.")
    with _locked(held):
        if not _free(final):
            clean_up(work, final)
            raise _taken(final, work, verb, resume=resume)
        kept = _take_up(held, settings or {}, resume=resume)
        try:
            if kept is None or not resume:
                keep_settings(held.work, held.verb, settings or {})
            yield held
        except BaseException:
            held.abandon()
            raise


@contextlib.contextmanager
def _locked(held: RunFolder) -> Iterator[None]:
    """DIR.unfinished, made and locked; whoever had it before may be removing it at this moment."""
    for last in (False, False, True):
        with _told(held.work):
            held.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(held.work / LOCK, f"{held.final} is being written by another run.")
        try:
            lock.__enter__()
        except BadInput:
            if last or held.work.is_dir():
                raise
            continue
        break
    with contextlib.ExitStack() as stack:
        stack.push(lock)
        yield


def _take_up(held: RunFolder, settings: Settings, *, resume: bool) -> dict[str, object] | None:
    """Check what an unfinished run left in the folder, and return its settings.

    Raises if it belongs to another run, or if there is something to resume and `resume` was not asked for.
    """
    kept = _check_verb(held)
    if _kept(held.state):
        if not resume:
            raise BadInput(
                f"{held.state} is there from a run that did not end.", fix=f"Use --resume, or delete {held.work}."
            )
        if kept is not None:
            check_settings(kept, settings)
    shutil.rmtree(held.work / "results", ignore_errors=True)
    return kept


def _check_verb(held: RunFolder) -> dict[str, object] | None:
    """What the run in DIR.unfinished is; one of another verb is refused, as its checkpoint would be swept away."""
    if not held.work.is_dir():
        return None
    kept = kept_settings(held.work)
    others = [path for path in held.work.iterdir() if path.name not in OURS and path.suffix != ".partial"]
    others = [path for path in others if path != held.state and _kept(path)]
    if held.state is not None and _kept(held.state) and kept is not None and kept.get("verb") != held.verb:
        others.append(held.state)
    if others:
        raise BadInput(
            f"{held.work} holds {shown(others[0])} of another run that did not end.",
            fix=f"Resume it, delete {held.work}, or give another --out.",
        )
    return kept


def _kept(state: Path | None) -> bool:
    """Whether there is something to go on with: a file, or a folder that is not empty."""
    return state is not None and os.path.lexists(state) and not (state.is_dir() and not any(state.iterdir()))


def _place(final: Path) -> Path:
    """Where a folder really is: a link to an empty folder means that folder."""
    return final.resolve() if final.is_symlink() and final.is_dir() else final


def _work(final: Path) -> Path:
    return _beside(final, UNFINISHED)


def _beside(final: Path, ending: str) -> Path:
    """The path beside `final` whose name has `ending` appended."""
    whole = final if final.name not in ("", "..") else Path(os.path.abspath(final))  # noqa: PTH100
    return whole.with_name(whole.name + ending)


def _names(final: Path) -> Iterator[Path]:
    yield final
    for number in range(2, 10_000):
        yield _beside(final, f"-{number}")


def _free(final: Path) -> bool:
    """Whether a path is absent or an empty folder, so that a run may be written there."""
    return not os.path.lexists(final) or (final.is_dir() and not any(final.iterdir()))


def _check_place(final: Path) -> None:
    """A folder that can be made or replaced, before any work is done."""
    parents = final.absolute().parents
    there = next((parent for parent in parents if parent.exists()), None)
    if not final.absolute().name or there is None or not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"The folder {shown(str(final))} cannot be made or written to.")
    if final.is_dir() and (os.path.ismount(final) or final.samefile(Path.cwd())):
        what = "the working folder" if final.samefile(Path.cwd()) else "a mount point"
        raise BadInput(
            f"The folder {shown(str(final))} is {what}, which cannot be replaced by the results.",
            fix="Give the name of a folder inside it.",
        )


def _taken(final: Path, work: Path, verb: str, *, resume: bool) -> BadInput:
    finished = (final / MANIFEST).is_file()
    what = "holds the results of a finished run" if finished else "is not an empty folder"
    if resume and _kept(work):
        return BadInput(
            f"{final} {what}, and the run that did not end cannot put its results there; it is left in {work}.",
            fix=f"Move {final} away, then use --resume again.",
        )
    if resume:
        fix = "Its results are whole." if finished else "Give the --out of the run that did not end."
        return BadInput(f"{final} {what}: there is nothing to resume.", fix=fix)
    fix = "Give another folder." if verb == SAVE else "Give another folder (--out), or --again."
    return BadInput(f"{final} {what}; a folder belongs to one run.", fix=fix)


def _renamed(folder: Path, final: Path, text: str) -> None:
    """One rename. A network file system may do it and report a failure after asking twice: then it was done."""
    try:
        folder.replace(final)
    except OSError:
        there = final / MANIFEST
        if folder.exists() or not there.is_file() or there.read_text(encoding="utf-8") != text:
            raise


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise why(path, error) from None
