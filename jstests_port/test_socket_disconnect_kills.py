"""Upstream: jstests/noPassthrough/socket_disconnect_kills.js

An operation whose client is gone is killed, unless it writes; and where the server counts such operations, it counts
them (7.1 or later).

Differs: upstream's client hangs up after 5 s, here as soon as a fail point holds its operation; 2 s, not 10, are the
proof that something goes on. The fail points hang in the process that is spoken to, so the half with a router needs a
mongos.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import pytest

from jstests_port.assertions import assert_soon
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Mongo
from jstests_port.raw_connection import NETWORK_ERRORS, raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.sharding_test import ShardingTest

GOES_ON: Final = 2.0
"""Seconds for which an operation that is not killed must still be there. Killed ones were gone after 0.13 s (6.0.5)."""
COMMAND_FAIL_POINT: Final = "waitInCommandMarkKillOnClientDisconnect"
FIND_FAIL_POINT: Final = "waitInFindBeforeMakingBatch"


@pytest.fixture
async def server(rst: ReplSetTest, test_name: str) -> Mongo:
    primary = await rst.get_primary()
    await primary[test_name].test.insert_many([{"x": number} for number in (1, 2, 3)])
    return primary


@pytest.fixture
async def router(st: ShardingTest, test_name: str) -> Mongo:
    await st.s[test_name].test.insert_many([{"x": number} for number in (1, 2, 3)])
    return st.s


@pytest.fixture(params=["server", pytest.param("router", marks=pytest.mark.needs_mongos)])
def target(request: pytest.FixtureRequest) -> Mongo:
    found: Mongo = request.getfixturevalue(request.param)
    return found


async def under_way(target: Mongo, app_name: str) -> int:
    """Operations of that client in the process that was spoken to."""
    ops = await target.admin.aggregate([{"$currentOp": {"localOps": True}}, {"$match": {"appName": app_name}}])
    return len(await ops.to_list())


async def abandoned(
    target: Mongo, database: str, command: Mapping[str, Any], fail_point: str, data: Mapping[str, Any], *, killed: bool
) -> None:
    """Send it, hang up on it, and see whether it is killed while the fail point holds it."""
    async with raw_connection(target.host) as own:
        aimed = {**data, "appName": own.app_name} if fail_point == COMMAND_FAIL_POINT else data
        async with await configure_fail_point(target, fail_point, aimed) as held:
            sent = asyncio.create_task(own.run_command(database, command))
            await held.wait()
            assert not sent.done()
            sent.cancel()
            await asyncio.wait([sent])
            if killed:

                async def gone() -> bool:
                    return await under_way(target, own.app_name) == 0

                await assert_soon(gone, f"{next(iter(command))} is killed when its client is gone")
            else:
                until = time.monotonic() + GOES_ON
                while time.monotonic() < until:
                    assert await under_way(target, own.app_name) > 0
                    await asyncio.sleep(0.2)


SLEEPS: Final = "function() { sleep(100000); return true; }"
SPINS: Final = "function() { while (true) {} }"
FINDS: Mapping[str, dict[str, Any]] = {
    "a plain find": {},
    "a find that sleeps in JavaScript": {"$where": SLEEPS},
    "a find that spins in JavaScript": {"$where": SPINS},
}


@pytest.mark.parametrize("find", FINDS)
async def test_a_find_is_killed_when_its_client_is_gone(target: Mongo, test_name: str, find: str) -> None:
    command = {"find": "test", "filter": FINDS[find]}

    await abandoned(target, test_name, command, FIND_FAIL_POINT, {"shouldCheckForInterrupt": True}, killed=True)


COMMANDS: tuple[dict[str, Any], ...] = (
    {"aggregate": "test", "pipeline": [], "cursor": {}},
    {"count": "test"},
    {"distinct": "test", "key": "x"},
    {"hello": 1},
    {"listCollections": 1},
    {"listIndexes": "test"},
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: next(iter(one)))
async def test_a_command_that_reads_is_killed_when_its_client_is_gone(
    target: Mongo, test_name: str, command: Mapping[str, Any]
) -> None:
    await abandoned(target, test_name, command, COMMAND_FAIL_POINT, {}, killed=True)


async def test_an_aggregate_that_writes_goes_on_without_its_client(target: Mongo, test_name: str) -> None:
    command = {"aggregate": "test", "pipeline": [{"$out": "out"}], "cursor": {}}

    await abandoned(target, test_name, command, COMMAND_FAIL_POINT, {}, killed=False)

    async def written() -> bool:
        return await target[test_name].out.count_documents({}) == 3

    await assert_soon(written, "the aggregate has written its collection")


async def test_what_was_killed_for_its_client_is_counted(target: Mongo, test_name: str) -> None:
    before = await operations(target, "killedDueToClientDisconnect")

    await abandoned(target, test_name, {"count": "test"}, COMMAND_FAIL_POINT, {}, killed=True)

    assert await operations(target, "killedDueToClientDisconnect") == before + 1


async def test_what_could_not_be_answered_is_counted(target: Mongo) -> None:
    before = await operations(target, "unsendableCompletedResponses")

    async with raw_connection(target.host) as own:
        aimed = {"appName": own.app_name}
        async with await configure_fail_point(target, "sessionWorkflowDelayOrFailSendMessage", aimed):
            with pytest.raises(NETWORK_ERRORS):
                await own.run_command("admin", {"hello": 1})

    assert await operations(target, "unsendableCompletedResponses") == before + 1


async def operations(target: Mongo, counter: str) -> int:
    """A counter of `serverStatus.metrics.operation`; skips where the server has none of that name."""
    status = await target.admin.command("serverStatus")
    found = status["metrics"]["operation"].get(counter)
    if found is None:
        pytest.skip(f"needs a server that counts {counter} (7.1 or later), found {status['version']}")
    return int(found)
