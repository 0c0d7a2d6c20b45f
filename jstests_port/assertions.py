"""The shell's assertions that Python has no word for: soon, failed with a code, an entry in the profiler."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from clusters import admin
from clusters.errors import ClusterError
from jstests_port.mongo import Document

SOON = 30.0
"""Seconds that `assert_soon` waits unless told otherwise."""


async def assert_soon(condition: Callable[[], Any], what: str, *, timeout: float = SOON) -> None:
    """`condition`, or what it gives to await, comes true within `timeout` seconds. `what` says so in words."""

    async def holds() -> bool:
        result = condition()
        return bool(await result if inspect.isawaitable(result) else result)

    try:
        await admin.until(what, holds, deadline=timeout)
    except ClusterError as error:
        raise AssertionError(str(error)) from None


async def assert_command_failed_with_code(command: Awaitable[Any], *codes: int) -> OperationFailure:
    """The failure, whose code is one of `codes`."""
    with pytest.raises(OperationFailure) as failed:
        await command
    assert failed.value.code in codes, f"failed with {failed.value.code} instead of {codes}: {failed.value}"
    return failed.value


async def start_profiler(*databases: AsyncDatabase[Document]) -> None:
    """The profiler writes down every operation from now on; a primary's has forgotten those before."""
    for database in databases:
        if (await database.command("hello")).get("isWritablePrimary"):
            await database.command("profile", 0)
            await database.drop_collection("system.profile")
        await database.command("profile", 2)


async def profiled(database: AsyncDatabase[Document], query: Mapping[str, Any]) -> list[Document]:
    """What the profiler of this member has of it."""
    return await database["system.profile"].find(dict(query)).to_list()


async def profiler_has_num_matching_entries(
    database: AsyncDatabase[Document], query: Mapping[str, Any], count: int
) -> None:
    found = await profiled(database, query)
    assert len(found) == count, f"expected {count} entries of {dict(query)} in {await _told(database)}, found {found}"


async def profiler_has_single_matching_entry(database: AsyncDatabase[Document], query: Mapping[str, Any]) -> None:
    await profiler_has_num_matching_entries(database, query, 1)


async def profiler_has_zero_matching_entries(database: AsyncDatabase[Document], query: Mapping[str, Any]) -> None:
    await profiler_has_num_matching_entries(database, query, 0)


async def profiler_has_at_least_one_matching_entry(database: AsyncDatabase[Document], query: Mapping[str, Any]) -> None:
    assert await profiled(database, query), f"expected an entry of {dict(query)} in {await _told(database)}"


async def _told(database: AsyncDatabase[Document]) -> list[Document]:
    """What it has at all, in short."""
    kept = {"op": 1, "ns": 1, "command.comment": 1, "originatingCommand.comment": 1, "errCode": 1, "_id": 0}
    return await database["system.profile"].find({}, kept).to_list()
