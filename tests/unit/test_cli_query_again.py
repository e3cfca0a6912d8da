"""Asked again with its key, a question says that nothing was charged; a file that is no ledger stays alone."""

import pyarrow
import pyarrow.parquet
import pytest

import tacit
from command import Command

pytest.importorskip("ibis")


def test_a_repeated_question_says_that_nothing_was_charged(tmp_path, capsys, monkeypatch):
    pyarrow.parquet.write_table(pyarrow.table({"who": range(50)}), tmp_path / "people.parquet")
    tacit.Ledger.create(tmp_path / "budget.db", epsilon=3, delta=0, unit="who")
    asked = ("query", str(tmp_path / "people.parquet"), "--unit", "who", "--users", "--epsilon", "1")
    asked = (*asked, "--ledger", str(tmp_path / "budget.db"), "--key", "monday")
    command = Command(capsys, monkeypatch)
    first, again = (command(*asked)[1] for _ in range(2))
    assert "remaining" in first
    assert "charged now" not in first
    assert "nothing: this is the answer that was kept under the key" in again


def test_opening_a_file_that_is_no_ledger_leaves_nothing_beside_it(tmp_path):
    for name, text in (("note.db", "hello"), ("empty.db", "")):
        (tmp_path / name).write_text(text)
        with pytest.raises(tacit.BadInput, match="not a ledger"):
            tacit.Ledger(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "note.db"]


def test_an_allotment_limits_who_asks_on_the_command_line(tmp_path, capsys, monkeypatch):
    pyarrow.parquet.write_table(pyarrow.table({"who": range(50)}), tmp_path / "people.parquet")
    budget = tacit.Ledger.create(tmp_path / "budget.db", epsilon=3, delta=0, unit="who")
    budget.allot(0.5, analyst="ann")
    budget.allot(0.25, purpose="survey")
    command = Command(capsys, monkeypatch)
    asked = ("query", str(tmp_path / "people.parquet"), "--unit", "who", "--users")
    paying = (*asked, "--ledger", str(tmp_path / "budget.db"))
    assert command(*asked, "--epsilon", "0.1", "--analyst", "ann")[0] == 2
    assert "remaining       epsilon 0.5" in command(*paying, "--epsilon", "1", "--analyst", "ann", "--preview")[1]
    assert command(*paying, "--epsilon", "1", "--analyst", "ann")[0] == 3
    assert command(*paying, "--epsilon", "0.4", "--purpose", "survey")[0] == 3
    assert budget.remaining() == 3
    kept = (*paying, "--epsilon", "0.25", "--analyst", "ann", "--purpose", "survey", "--key", "monday")
    told = dict(line.split(" epsilon ") for line in command(*kept)[1].splitlines() if " epsilon " in line)
    told = {name.strip(): float(value.split(",")[0]) for name, value in told.items()}
    assert told["remaining"] == pytest.approx(2.75)
    assert told["for who asks"] == pytest.approx(0)  # the survey has used all that it may
    assert "nothing: this is the answer" in command(*kept)[1]
    assert command(*paying, "--epsilon", "1")[0] == 0
    assert next((entry.analyst, entry.purpose) for entry in budget.entries()) == ("ann", "survey")
    assert budget.remaining(analyst="ann") == 0.25


def test_what_a_preview_says_remains_can_be_spent(tmp_path, capsys, monkeypatch):
    """It was rounded to the nearest number, here up, and the question that spent it was refused."""
    pyarrow.parquet.write_table(pyarrow.table({"who": range(50)}), tmp_path / "people.parquet")
    budget = tacit.Ledger.create(tmp_path / "budget.db", epsilon=1, delta=0, unit="who")
    asked = ("query", str(tmp_path / "people.parquet"), "--unit", "who", "--users")
    paying, command = (*asked, "--ledger", str(tmp_path / "budget.db")), Command(capsys, monkeypatch)
    for more in (("--epsilon", "0.1234123"), ("--epsilon", "0.5", "--preview")):
        line = next(line for line in command(*paying, *more)[1].splitlines() if line.startswith("remaining"))
        assert line.split()[1:] == ["epsilon", "0.8765"]
    assert float(f"{budget.remaining():.4g}") > budget.remaining()
    assert command(*paying, "--epsilon", "0.8765")[0] == 0
