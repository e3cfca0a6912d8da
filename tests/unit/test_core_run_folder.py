"""The folder of one run, by itself: other verbs, links, mount points, network file systems, races."""

import errno
import os
from pathlib import Path

import pytest

from tacit.core import BadInput, NotFinished
from tacit.core.run_folder import run_folder
from tacit.core.run_settings import keep_settings


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def unfinished(folder, verb="train", state="checkpoint.secret", settings=None):
    """What a killed run of a verb leaves."""
    Path(folder).mkdir()
    keep_settings(Path(folder), verb, settings or {})
    Path(folder, state).write_bytes(b"hours of work")


@pytest.mark.parametrize("verb", ["attack", "bracket", "audit"])
def test_a_run_of_another_verb_does_not_sweep_an_unfinished_one_away(tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    unfinished("out.unfinished")
    state = "checkpoint.jsonl" if verb == "audit" else None
    for resume in (False, True):
        with pytest.raises(BadInput, match="secret of another run"):
            run_folder("out", verb, state=state, resume=resume).__enter__()
    assert Path("out.unfinished/checkpoint.secret").read_bytes() == b"hours of work"


def test_the_same_state_of_another_verb_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unfinished("out.unfinished", "train")
    with pytest.raises(BadInput, match="another run"):
        run_folder("out", "bracket", state="checkpoint.secret", resume=True).__enter__()


def test_other_settings_at_resume_are_named_and_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unfinished("out.unfinished", settings={"train.schedule": "cosine", "plan.delta": 1e-5})
    with pytest.raises(BadInput, match='schedule was "cosine" and is now "linear"'):
        run_folder("out", "train", state="checkpoint.secret", resume=True, settings={
            "train.schedule": "linear", "plan.delta": 1e-5,
        }).__enter__()  # fmt: skip
    assert Path("out.unfinished/checkpoint.secret").exists()
    Path("out.unfinished/settings.json").write_text("damaged")  # the checkpoint's own comparison is left
    with run_folder("out", "train", state="checkpoint.secret", resume=True, settings={"train.schedule": "linear"}):
        pass


def test_a_link_to_an_empty_folder_means_that_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("real").mkdir()
    Path("out").symlink_to("real")
    with run_folder("out", "attack") as held:
        (held.results / "a").write_text("a")
        held.commit()
    assert files("real") == ["a", "manifest.json"]
    assert Path("out").is_symlink()
    with pytest.raises(BadInput, match="a folder belongs to one run"):
        run_folder("out", "attack").__enter__()


@pytest.mark.parametrize("name", [".", "../here", "mounted"])
def test_a_folder_that_cannot_be_replaced_is_refused_before_any_work(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if name == "mounted":
        Path("mounted").mkdir()
        monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "mounted")
    with pytest.raises(BadInput, match="cannot be replaced by the results"):
        run_folder(name, "attack").__enter__()
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    from tacit.core import locks

    def refuse(handle):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks, "_lock", refuse)
    with pytest.raises(BadInput, match="offers no locks"):
        run_folder(tmp_path / "out", "attack").__enter__()


def test_a_rename_that_was_done_and_reported_as_failed_is_done(tmp_path, monkeypatch):
    """As network file systems do when an answer is lost."""

    def twice(self, to, real=Path.replace):
        real(self, to)
        if self.name == "results":
            raise FileNotFoundError(errno.ENOENT, "gone")

    with run_folder(tmp_path / "out", "attack") as held:
        (held.results / "a").write_text("a")
        monkeypatch.setattr(Path, "replace", twice)
        held.commit()
    assert files(tmp_path / "out") == ["a", "manifest.json"]
    monkeypatch.undo()
    with run_folder(tmp_path / "other", "attack") as held:
        monkeypatch.setattr(Path, "replace", lambda self, to: self.with_name("gone").rename(to))
        with pytest.raises(BadInput):
            held.commit()


def test_a_rename_that_the_disk_does_not_confirm_keeps_the_checkpoint_and_says_so(tmp_path, monkeypatch):
    def full_after_the_rename(handle, real=os.fsync):
        if (tmp_path / "out").exists():
            raise OSError(errno.ENOSPC, "full")
        real(handle)

    with run_folder(tmp_path / "out", "train", state="c") as held:
        held.state.write_bytes(b"hours of work")
        (held.results / "a").write_text("a")
        monkeypatch.setattr(os, "fsync", full_after_the_rename)
        with pytest.raises(NotFinished, match="holds the results"):
            held.commit()
    assert files(tmp_path / "out") == ["a", "manifest.json"]
    assert (tmp_path / "out.unfinished" / "c").exists()


def test_a_folder_that_is_being_removed_is_taken_anew(tmp_path, monkeypatch):
    """Its last holder removes it between our making it and our lock."""
    from tacit.core import run_folder as module

    real, left = module.Lock.__enter__, [1]

    def enter(self):
        if left.pop() if left else 0:
            (tmp_path / "out.unfinished").rmdir()
        return real(self)

    monkeypatch.setattr(module.Lock, "__enter__", enter)
    with run_folder(tmp_path / "out", "attack") as held:
        held.commit()
    assert (tmp_path / "out" / "manifest.json").is_file()


@pytest.mark.parametrize("there", ["a log", "another finished run"])
def test_an_unfinished_run_is_kept_whatever_its_folder_holds_by_now(tmp_path, monkeypatch, there):
    monkeypatch.chdir(tmp_path)
    unfinished("out.unfinished")
    if there == "a log":
        Path("out").mkdir()
        Path("out/log.txt").write_text("began at noon")
    else:
        with run_folder("other", "train") as held:
            (held.results / "a").write_text("a")
            held.commit()
        Path("other").rename("out")
    for resume in (False, True):
        with pytest.raises(BadInput, match=r"left in out\.unfinished" if resume else "belongs to one run"):
            run_folder("out", "train", state="checkpoint.secret", resume=resume).__enter__()
        assert Path("out.unfinished/checkpoint.secret").read_bytes() == b"hours of work"
    Path("out").rename("away")
    with run_folder("out", "train", state="checkpoint.secret", resume=True) as held:
        assert held.state.read_bytes() == b"hours of work"


def test_a_folder_of_somebody_elses_that_has_the_name_is_not_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("out", "out.unfinished"):
        Path(name).mkdir()
        Path(name, "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="not an empty folder"):
        run_folder("out", "attack").__enter__()
    assert Path("out.unfinished/thesis.txt").read_text() == "years of work"


def test_what_led_to_results_is_removed_once_the_disk_confirms_them(tmp_path, monkeypatch):
    from tacit.core import leftovers, run_folder as module  # noqa: I001

    monkeypatch.chdir(tmp_path)
    with run_folder("out", "train", state="c") as held:
        held.state.write_bytes(b"a secret")
        (held.results / "a").write_text("a")
        with monkeypatch.context() as patch:
            patch.setattr(module, "sweep", lambda work: None)  # as if the process had ended here
            held.commit()

    def unconfirmed(path):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "sync", unconfirmed)
        with pytest.raises(BadInput):
            run_folder("out", "train", state="c", resume=True).__enter__()
    assert Path("out.unfinished/c").exists()
    with pytest.raises(BadInput, match="nothing to resume"):
        run_folder("out", "train", state="c", resume=True).__enter__()
    assert not Path("out.unfinished").exists()


class Killed(BaseException):
    """Ends a process; nothing catches it."""


@pytest.mark.parametrize("name", ["unlink", "fsync", "rmdir"])
def test_a_process_that_ends_while_it_cleans_up_leaves_nothing_for_ever(tmp_path, monkeypatch, name):
    """At every operation of the cleaning: the next command finds out what was being removed, and ends it."""
    from tacit.core import leftovers, run_folder as module  # noqa: I001

    real, ended = getattr(os, name), 0
    for place in range(8):
        out = tmp_path / str(place)
        with run_folder(out, "train", state="c") as held, monkeypatch.context() as patch:
            held.state.write_bytes(b"a secret")
            (held.results / "a").write_text("a")
            patch.setattr(module, "sweep", lambda work: None)
            held.commit()
        left = [place]

        def dies(*arguments, left=left, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(os, name, dies)
            try:
                leftovers.forget(held.work, out)
            except Killed:
                ended += 1
        with pytest.raises(BadInput, match="finished run"):
            run_folder(out, "train", state="c").__enter__()
        assert not held.work.exists(), (name, place)
    assert ended >= 1
