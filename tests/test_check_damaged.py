"""A stored record whose fields are not what they should be: `check` says so in one line, and judges nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits

STARTED: dict[str, Any] = {
    "t": 0, "wall": 1.7e9, "source": "run", "kind": "run.started", "scenario": "retry-overlap", "seed": 1,
    "parameters": {"fault": "none"}, "expected": ["maximum"],
    "server": {"version": "6.0.5", "git_version": "c9a99c1203", "parameters": {}, "router": "none"},
    "driver": {"name": "pymongo", "version": "4.20.1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("seed", 1, exits.UNKNOWN),
        ("server", "6.0.5", exits.REFUSED),
        ("server", -7, exits.REFUSED),
        ("server", {}, exits.REFUSED),
        ("driver", "pymongo", exits.REFUSED),
        ("driver", -7, exits.REFUSED),
        ("parameters", "none", exits.REFUSED),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_one_line(
    field: str, value: Any, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "history.jsonl").write_text(json.dumps({**STARTED, field: value}) + "\n")
    assert cli.run(["check", str(tmp_path)]) == code
    error = capsys.readouterr().err
    assert ("cannot be judged, a field is not what it should be" in error) is (code == exits.REFUSED)
    assert error.count("\n") == (code == exits.REFUSED)
