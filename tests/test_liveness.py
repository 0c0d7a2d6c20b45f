"""Work goes on while its processes live, and while one is down because it was taken down here."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from clusters.errors import MemberDied
from clusters.guard import new_token
from clusters.liveness import while_all_live
from clusters.member import LocalProcess


async def test_a_process_killed_here_and_started_again_ends_nothing_and_its_own_death_does(tmp_path: Path) -> None:
    process = LocalProcess("sleeper", "127.0.0.1:1", ["sleep", "60"], tmp_path / "log", new_token())
    process.spawn()
    restarted = False

    async def work() -> None:
        nonlocal restarted
        await process.kill()
        await asyncio.sleep(0.3)
        second = process.spawn()
        await asyncio.sleep(0.3)
        restarted = True
        os.kill(second.pid, signal.SIGKILL)
        await asyncio.sleep(30)

    with pytest.raises(MemberDied, match="sleeper ended out of turn"):
        await while_all_live(work(), [process])
    assert restarted


async def test_a_process_started_again_before_anybody_could_look_ends_nothing(tmp_path: Path) -> None:
    process = LocalProcess("sleeper", "127.0.0.1:1", ["sleep", "60"], tmp_path / "log", new_token())
    process.spawn()

    async def work() -> None:
        for _time in range(20):
            await asyncio.sleep(0.01)
            process.ended_here = True
            first = process.process
            assert first is not None
            os.kill(first.pid, signal.SIGKILL)
            while process.running():
                pass
            process.spawn()
        await asyncio.sleep(0.1)

    try:
        await while_all_live(work(), [process])
    finally:
        await process.kill()


async def test_work_that_needs_no_process_of_ours_ends_with_its_own_error() -> None:
    async def work() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await while_all_live(work(), [])
