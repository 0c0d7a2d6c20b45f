"""One run of a suite, without a word: what it came to, and its history."""

from __future__ import annotations

import signal
from pathlib import Path

from harness import exits
from harness.history import Event, read
from harness.interrupts import Interrupted
from harness.record import HISTORY
from harness.report.live import Silent
from harness.result import Result
from harness.run import Run
from harness.scenarios.base import Scenario


async def carried_out(scenario: Scenario, runs: Path) -> tuple[Result, list[Event]]:
    """With its record in `runs`. Raises Refused where nothing was started, Interrupted when all is healed."""
    result = await Run(scenario, runs, Silent()).execute()
    events = list(read(Path(result.document["record"]) / HISTORY))
    if result.exit_code == exits.INTERRUPTED:
        raise Interrupted(signal.Signals[events[-1]["detail"]])
    return result, events
