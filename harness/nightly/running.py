"""One cell: `mongofault run` as a process of its own, so that its crash, or its end by force, is that cell's alone.

Whatever ends the night, the cell ends with it: how is in the night's ledger before the process is started. What the run
itself broke is its own guardian's to heal, and waited for.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.guard import TOKEN_VARIABLE, KillProcess, Ledger, identify, ledger_directory, new_token
from harness.nightly.cells import Cell
from harness.nightly.servers import Server
from harness.record import RESULT

OUTPUT: Final = "output.log"
RECORDS: Final = "runs"
ENDINGS: Final = ((signal.SIGINT, 60.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0))
"""How a cell is ended, and the seconds that each way gets: the first one heals, as long as its process still can."""
HEALED_DEADLINE: Final = 60.0
"""Seconds for the guardian of a run that was killed."""
POLL: Final = 0.05
COMPLAINT: Final = "mongofault: "


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the process of a cell. Paths are absolute."""

    seconds: float
    exit_code: int | None
    """Negative: the number of the signal that killed it. None: it is still there, whatever was sent to it."""
    ended: str | None
    """Why it was ended from here; None where it ended by itself."""
    result: dict[str, Any] | None
    """Its result.json."""
    last_words: str | None
    """The last line of its output that says what went wrong."""
    log: Path
    record: Path | None
    left: str | None = None
    """What is still there of a run that was killed."""


def typed(cell: Cell, server: Server) -> str:
    """The cell's run as one types it."""
    return shlex.join([*_settings(server), "mongofault", *_arguments(cell, server)])


def _settings(server: Server) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in server.environment.items())] if server.environment else []


def _arguments(cell: Cell, server: Server) -> list[str]:
    return ["run", cell.scenario, *server.options, *cell.options]


class Running:
    """The process of a cell, from its start to what became of it."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, ledger: Ledger, entry: int) -> None:
        self._process = process
        self._directory = directory
        self._ledger = ledger
        self._entry = entry
        self._begun = time.monotonic()

    @classmethod
    async def start(cls, cell: Cell, server: Server, directory: Path, ledger: Ledger) -> Running:
        """Start it, with `directory`, a new one, for its output and its record."""
        directory.mkdir(parents=True)
        token = new_token()
        entry = ledger.open(KillProcess(None, token), title=cell.name)
        with (directory / OUTPUT).open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "harness", *_arguments(cell, server), "--runs", str(directory / RECORDS)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # Ctrl-C is for the night alone, which passes it on.
                start_new_session=True,
                env={**os.environ, **server.environment, TOKEN_VARIABLE: token},
            )
        with suppress(ProcessLookupError):
            ledger.update(entry, KillProcess(identify(process.pid), token))
        return cls(process, directory, ledger, entry)

    async def done(self, limit: float) -> Ran:
        """Wait for its end, and end it when `limit` seconds are over."""
        try:
            async with asyncio.timeout(limit):
                await self._process.wait()
        except TimeoutError:
            return await self.end(f"not done within {limit:.0f} s, and ended")
        return await self._ran(None)

    async def end(self, why: str) -> Ran:
        """End it, so that it heals if it still can, and wait until that is done."""
        for number, seconds in ENDINGS:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._process.wait()
                    break
        return await self._ran(why)

    async def _ran(self, ended: str | None) -> Ran:
        seconds = time.monotonic() - self._begun
        record = _record(self._directory / RECORDS)
        left = None if record is None else await _healed(record)
        if self._process.returncode is not None:
            self._ledger.close(self._entry)
        log = self._directory / OUTPUT
        return Ran(seconds, self._process.returncode, ended, _result(record), _last_words(log), log, record, left)


async def _healed(record: Path) -> str | None:
    """Wait until nothing is left of the run: its ledger is gone. A sentence where it is still there."""
    ledger = ledger_directory(f"run-{record.name.rpartition('-')[2]}")
    end = time.monotonic() + HEALED_DEADLINE
    while ledger.exists():
        if time.monotonic() > end:
            return f"not healed within {HEALED_DEADLINE:g} s of its end, see 'mongofault heal': {ledger}"
        await asyncio.sleep(POLL)
    return None


def _record(records: Path) -> Path | None:
    return next(iter(sorted(records.glob("*"))), None)


def _result(record: Path | None) -> dict[str, Any] | None:
    if record is None:
        return None
    try:
        document = json.loads((record / RESULT).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _last_words(log: Path) -> str | None:
    """What it complained of last, or the last line of all."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return None
    complaints = [line.removeprefix(COMPLAINT) for line in lines if line.startswith(COMPLAINT)]
    return next(reversed(complaints or lines), None)
