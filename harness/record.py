"""The directory of a run: its history, its result, and where it went wrong the members' logs."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from clusters.errors import Refused
from clusters.member import Watched
from harness import result
from harness.history import Recorder, read

HISTORY: Final = "history.jsonl"
RESULT: Final = "result.json"
LOGS: Final = "logs"


class Record:
    """`runs/<time>-<scenario>-<suffix>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: Path, scenario: str) -> Record:
        """A new, empty one. Raises Refused where it cannot be made."""
        name = f"{time.strftime('%Y%m%dT%H%M%S')}-{scenario}-{secrets.token_hex(3)}"
        path = runs / name
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise Refused(f"the record {path} cannot be made ({error.strerror}): choose another --runs") from None
        return cls(path)

    @classmethod
    def at(cls, path: Path) -> Record:
        """The record at a directory, or of a history file. Raises Refused where there is none."""
        directory = path.parent if path.name == HISTORY else path
        if not (directory / HISTORY).is_file():
            raise Refused(f"{path} is no record of a run: expected a directory with a {HISTORY}")
        return cls(directory)

    @property
    def suffix(self) -> str:
        return self.path.name.rpartition("-")[2]

    def recorder(self) -> Recorder:
        return Recorder(self.path / HISTORY)

    def chaos(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The parameters and the schedule of a stored chaos run. Raises Refused where it is none, HistoryError."""
        parameters: dict[str, Any] = {}
        for event in read(self.path / HISTORY):
            if event.kind == "run.started":
                parameters = event["parameters"]
            elif event.kind == "schedule":
                return parameters, event["faults"]
        raise Refused(f"{self.path} holds no schedule of faults: it is no record of a chaos run, or of one cut short")

    def judge(self) -> result.Result:
        """Findings and verdict of the stored history. Raises HistoryError."""
        return result.of(read(self.path / HISTORY), str(self.path))

    def write_result(self, judged: result.Result) -> None:
        (self.path / RESULT).write_text(json.dumps(judged.document, indent=2, default=str) + "\n")

    def keep_logs(self, servers: Iterable[Watched]) -> None:
        """Copy the logs of members into the record."""
        directory = self.path / LOGS
        # A full disk: the run is judged without them.
        with suppress(OSError):
            directory.mkdir(exist_ok=True)
            for one in servers:
                one.keep_log(directory / f"{one.name}.log")
