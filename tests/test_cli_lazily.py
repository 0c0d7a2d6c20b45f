"""Every command is where the table says, and none is imported for another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands.lazily import COMMANDS, Commands


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_table_is_there_and_says_what_it_does(name: str) -> None:
    command = Commands()[name]
    assert command.name == name
    assert command.help


def test_a_command_does_not_import_the_others(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from harness.cli import run\n"
        "assert run(['ls']) == 0\n"
        "print(sorted(set(sys.modules) & {'faults', 'harness.scenarios', 'harness.checkers', 'plotly'}))\n"
    )
    environment = {"MONGOFAULT_STATE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
