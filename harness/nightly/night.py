"""The night: its cells in turn, within their time; what is known is written down after each of them.

A cell that crashes, or is ended, is its own failure, and the rest goes on. A signal ends the cell under way, healed.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from clusters import local
from clusters.errors import Refused
from clusters.guard import Ledger
from harness.measures import duration
from harness.nightly.cells import Cell
from harness.nightly.comparison import changes
from harness.nightly.results import Known, LastNight, Night, Row, not_run, row
from harness.nightly.running import Ran, Running, typed
from harness.nightly.servers import Server
from harness.report import junit
from harness.report import nightly as report

RESULTS: Final = "results.json"
SUMMARY: Final = "summary.md"
JUNIT: Final = "junit.xml"
CELLS: Final = "cells"
NAME_LENGTH: Final = 100

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done in a night. `servers` by version; `limit` in seconds, of all cells together."""

    plan: str
    cells: Sequence[Cell]
    servers: Mapping[str, Server]
    limit: float
    seed: int
    out: Path
    last: LastNight | None = None


async def through(asked: Asked, told: Told) -> Night:
    """All cells; `told` a line for each. Raises Refused where nothing was started, CancelledError when all is healed
    and what is known is written."""
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    directory = asked.out / CELLS / time.strftime("%Y%m%dT%H%M%S")
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"{directory} cannot be made ({error.strerror}): choose another --out") from None
    ledger, guardian = local.open_ledger(f"nightly-{secrets.token_hex(3)}")
    course = _Course(asked, told, began, directory, ledger)
    try:
        return await course.drive()
    finally:
        await local.take_down(ledger, guardian)


class _Course:
    """The way of one night, cell by cell."""

    def __init__(self, asked: Asked, told: Told, began: str, directory: Path, ledger: Ledger) -> None:
        self._asked = asked
        self._told = told
        self._began = began
        self._directory = directory
        self._ledger = ledger
        self._start = time.monotonic()
        self._rows: list[Row] = []
        self._known: dict[str, Known | None] = {}
        if asked.last is not None:
            self._known = {one.cell: one.known for one in asked.last.cells}

    async def drive(self) -> Night:
        for cell in self._asked.cells:
            left = self._asked.limit - (time.monotonic() - self._start)
            if left > 0:
                await self._run(cell, min(cell.limit, left))
            else:
                self._add(self._not_run(cell, f"the {duration(self._asked.limit)} of the night were over"))
            self._write(self._night("the night has not come to it yet"))
        return self._night()

    async def _run(self, cell: Cell, limit: float) -> None:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", cell.name)[:NAME_LENGTH]
        directory = self._directory / f"{len(self._rows) + 1:02}-{name}"
        running = await Running.start(cell, self._asked.servers[cell.version], directory, self._ledger)
        try:
            ran = await running.done(limit)
        except asyncio.CancelledError:
            # Not cancelled again meanwhile: a second signal is only answered (interrupts.py).
            self._add(self._row(cell, await running.end("interrupted")))
            self._write(self._night("the night was interrupted", interrupted=True))
            raise
        self._add(self._row(cell, ran))

    def _row(self, cell: Cell, ran: Ran) -> Row:
        return row(cell, self._typed(cell), ran, self._began, self._known.get(cell.name), self._asked.out)

    def _not_run(self, cell: Cell, why: str) -> Row:
        return not_run(cell, self._typed(cell), why, self._known.get(cell.name))

    def _typed(self, cell: Cell) -> str:
        return typed(cell, self._asked.servers[cell.version])

    def _add(self, one: Row) -> None:
        self._rows.append(one)
        self._told(f"{len(self._rows)}/{len(self._asked.cells)} {report.line(one)}")

    def _night(self, rest: str = "", *, interrupted: bool = False) -> Night:
        """As it is now; `rest`: why the cells to come are not run."""
        rows = [*self._rows, *(self._not_run(cell, rest) for cell in self._asked.cells[len(self._rows) :])]
        return Night(
            plan=self._asked.plan,
            began=self._began,
            seed=self._asked.seed,
            seconds=time.monotonic() - self._start,
            rows=rows,
            changes=changes(rows, self._asked.last),
            compared_with=None if self._asked.last is None else self._asked.last.began,
            interrupted=interrupted,
        )

    def _write(self, night: Night) -> None:
        out = self._asked.out
        _replace(out / RESULTS, json.dumps(night.document, indent=2, default=str) + "\n")
        _replace(out / SUMMARY, report.page(night))
        _replace(out / JUNIT, junit.document("nightly", report.cases(night, out), began=night.began))


def _replace(path: Path, text: str) -> None:
    """Never half of it: the next night reads it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
