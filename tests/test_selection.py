"""Whom lookups without a tag go to: the latency window, and that a run waits until all secondaries are in it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.cluster import data_members
from clusters.local import LocalCluster
from harness import selection
from harness.selection import ROUND_TRIPS, window


def host(addr: str, ping: float, *, ok: bool = True, secondary: bool = True) -> dict[str, Any]:
    return {"addr": addr, "pingTimeMillis": ping, "ok": ok, "secondary": secondary}


def test_the_window_begins_at_the_nearest_secondary_and_ends_15_ms_later() -> None:
    hosts = [host("p", 0.1, secondary=False), host("a", 3.0), host("b", 18.0), host("c", 18.1)]
    assert window(hosts) == ["a", "b"]


def test_a_member_that_is_down_is_not_in_the_window_and_does_not_begin_it() -> None:
    assert window([host("down", 0.1, ok=False), host("a", 40.0), host("b", 50.0)]) == ["a", "b"]


def test_of_nobody_the_window_is_empty() -> None:
    assert window([]) == []


@pytest.mark.live
async def test_round_trips_are_made_even_on_every_member_and_taken_back_by_the_undo_records(
    sharded: LocalCluster,
) -> None:
    async def on() -> list[bool]:
        found = []
        for member in data_members(sharded):
            async with member.client() as client:
                name = f"failpoint.{ROUND_TRIPS}"
                reply = await client.admin.command({"getParameter": 1, name: 1})
                found.append(bool(reply[name]["mode"]))
        return found

    await selection.even(sharded)
    assert await on() == [True] * 6
    for undo in selection.undo_even(sharded):
        undo.undo(10.0)
    assert await on() == [False] * 6
