"""Hand-made histories as stored records, and as what a report draws of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from harness.history import Recorder
from harness.record import HISTORY, Record
from harness.report.page import Drawn, draw
from history_builder import History

TOLD: dict[str, Any] = {
    "seed": 1,
    "server": {"version": "6.0.5", "git_version": "c9a99c1203", "router": "stand-in", "parameters": {}},
    "driver": {"name": "pymongo", "version": "4.20.1", "pymongo": "4.20.1"},
}
"""What a run tells of itself at its start, besides what checkers read."""


def record_of(history: History, directory: Path) -> Record:
    directory.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(directory / HISTORY)
    for event in history.events():
        told = TOLD if event.kind == "run.started" else {}
        recorder.write(dataclasses.replace(event, fields={**event.fields, **told}))
    recorder.close()
    return Record.at(directory)


def drawn_of(history: History, directory: Path) -> Drawn:
    return draw(record_of(history, directory))
