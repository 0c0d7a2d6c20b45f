"""Upstream: jstests/replsets/await_replication_timeout.js

Which limit ends the wait for a write concern, wtimeout or maxTimeMS, says so; dropDatabase waits for a majority also
where less is asked, and for more where that is.

Differs: upstream makes w:1 the default write concern of the set; here each command says its own. Limits of 1 s are
0.5 s.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from jstests_port.error_codes import ErrorCodes
from jstests_port.raw_connection import RawConnection, raw_connection
from jstests_port.repl_set_test import ReplSetTest, repl_set_test

SHORT: Final = 500
LONG: Final = 20_000
"""Milliseconds."""


@pytest.fixture(scope="module")
async def two_of_three() -> AsyncIterator[ReplSetTest]:
    """A set of three, one secondary of which is down: three never acknowledge."""
    async with repl_set_test(3, name="jstests-timeout") as rst:
        await rst.await_replication()
        # Its driver would wait 30 s for it at the end, to tell it that sessions are over.
        await rst.nodes[-1].close()
        await rst.member(rst.nodes[-1]).kill()
        yield rst


@pytest.fixture
def database(test_name: str) -> str:
    """One for each test: none goes away while a member is down."""
    return f"{test_name}_{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def primary(two_of_three: ReplSetTest) -> AsyncIterator[RawConnection]:
    async with raw_connection((await two_of_three.get_primary()).host) as own:
        yield own


CONCERNS: Mapping[str, tuple[dict[str, Any], ErrorCodes]] = {
    "wtimeout alone": ({"writeConcern": {"w": 3, "wtimeout": SHORT}}, ErrorCodes.WriteConcernFailed),
    "maxTimeMS alone": ({"writeConcern": {"w": 3}, "maxTimeMS": SHORT}, ErrorCodes.MaxTimeMSExpired),
    "wtimeout before maxTimeMS": (
        {"writeConcern": {"w": 3, "wtimeout": SHORT}, "maxTimeMS": LONG},
        ErrorCodes.WriteConcernFailed,
    ),
    "maxTimeMS before wtimeout": (
        {"writeConcern": {"w": 3, "wtimeout": LONG}, "maxTimeMS": SHORT},
        ErrorCodes.MaxTimeMSExpired,
    ),
}


@pytest.mark.parametrize("case", CONCERNS)
async def test_the_limit_that_comes_first_says_why_the_wait_ended(
    primary: RawConnection, database: str, case: str
) -> None:
    fields, code = CONCERNS[case]
    await primary.run_command(database, {"create": "foo", "writeConcern": {"w": 2}})

    reply = await primary.run_command(database, {"insert": "foo", "documents": [{"_id": 1, "a": 1}], **fields})
    left = await primary.run_command(database, {"find": "foo"})

    assert reply["writeConcernError"]["code"] == code
    assert (reply["ok"], reply["n"]) == (1, 1)
    assert left["cursor"]["firstBatch"] == [{"_id": 1, "a": 1}]


async def test_drop_database_waits_for_more_than_a_majority_where_asked(primary: RawConnection, database: str) -> None:
    await primary.run_command(database, {"create": "foo", "writeConcern": {"w": 2}})

    reply = await primary.run_command(database, {"dropDatabase": 1, "writeConcern": {"w": 3, "wtimeout": SHORT}})

    assert reply["writeConcernError"]["code"] == ErrorCodes.WriteConcernFailed


async def test_drop_database_waits_for_a_majority_where_less_is_asked(
    two_of_three: ReplSetTest, primary: RawConnection, database: str
) -> None:
    await primary.run_command(database, {"create": "foo", "writeConcern": {"w": 2}})
    secondary = two_of_three.nodes[1]

    await two_of_three.stop_server_replication(secondary)
    try:
        reply = await primary.run_command(database, {"dropDatabase": 1, "writeConcern": {"w": 1, "wtimeout": SHORT}})
    finally:
        await two_of_three.restart_server_replication(secondary)

    assert (reply["ok"], reply["code"]) == (0, ErrorCodes.WriteConcernFailed)
