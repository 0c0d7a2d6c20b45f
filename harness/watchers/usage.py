"""What a run costs: memory and CPU of members, router and harness, sampled from the process table.

It knows process ids and reads /proc; what it writes down are sums, never a process of its own account.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.history import Recorder

SOURCE: Final = "usage"

EVERY: Final = 1.0
"""Seconds from one sample to the next; a peak between two of them is not seen."""

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
PAGE_MIB: Final = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Usage:
    """Samples groups of processes, as `groups` has them by now. Pages that processes share count for each of them."""

    def __init__(self, recorder: Recorder, groups: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        self._recorder = recorder
        self._groups = groups

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            measured = {name: [_of(pid) for pid in pids] for name, pids in self._groups().items()}
            self._recorder.record(
                "usage", SOURCE,
                rss_mib={name: round(sum(rss for rss, _ in ones)) for name, ones in measured.items()},
                cpu_seconds={name: round(sum(cpu for _, cpu in ones), 2) for name, ones in measured.items()},
                processes={name: len(ones) for name, ones in measured.items()},
            )  # fmt: skip
            await asyncio.sleep(EVERY)


def _of(pid: int) -> tuple[float, float]:
    """Resident MiB and CPU seconds since its start, 0 for a process that is gone."""
    directory = Path("/proc", str(pid))
    try:
        resident = int((directory / "statm").read_text().split()[1])
        # The name, which may hold anything, is in parentheses; user and system time are the 14th and 15th field.
        fields = (directory / "stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0.0, 0.0
    return resident * PAGE_MIB, (int(fields[11]) + int(fields[12])) * TICK
