"""Run the command in this process: status, standard output, standard error."""

import sys

import pytest

from tacit.cli import main


class Command:
    def __init__(self, capsys, monkeypatch):
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *words):
        self._monkeypatch.setattr(sys, "argv", ["tacit", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = self._capsys.readouterr()
        return left.value.code or 0, out, err
