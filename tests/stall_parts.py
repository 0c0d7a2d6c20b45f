"""Runs of `update-lookup-stall` as a user starts them, and what they came to."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aftermath import Place

SCENARIO = ("run", "update-lookup-stall", "--seed", "7")
DEADLINE = 400
"""Seconds for a run that takes thirty on a machine of its own."""


@dataclass
class Outcome:
    """A finished run."""

    code: int
    out: str
    err: str
    record: Path
    result: dict[str, Any]

    def finding(self, name: str) -> dict[str, Any]:
        (found,) = [one for one in self.result["findings"] if one["name"] == name]
        return dict(found)


def outcome(place: Place, process: subprocess.Popen[str], before: str = "") -> Outcome:
    out, err = process.communicate(timeout=DEADLINE)
    text = before + out
    found = re.search(r"record: (\S+)", text)
    assert found, text + err
    record = place.root / found[1]
    result = json.loads((record / "result.json").read_text())
    return Outcome(process.returncode, text, err, record, result)


def run(place: Place, *options: str) -> Outcome:
    return outcome(place, place.start(*SCENARIO, *options))


def at_once(place: Place, *runs: tuple[str, ...]) -> list[Outcome]:
    """Several runs side by side on this machine, each with a cluster of its own."""
    processes = [place.start(*SCENARIO, *options) for options in runs]
    return [outcome(place, process) for process in processes]
