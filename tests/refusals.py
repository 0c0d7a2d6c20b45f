"""What every refusal of a command is like, whatever it refuses; for tests with the fixture `nothing_given`."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits


def refused_in_one_line(arguments: list[str], said: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says it, and nothing was started in the test's directory."""
    assert cli.run(arguments) == exits.REFUSED
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(directory.glob("state/ledgers/*"))
    assert not list(directory.glob("runs/*"))
