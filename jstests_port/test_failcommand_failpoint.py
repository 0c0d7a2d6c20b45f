"""Upstream: jstests/core/failcommand_failpoint.js (before: jstests/noPassthrough/)

Which commands the fail point `failCommand` fails, how, and how often; on a primary, and on a router, whose own fail
point it then is.

Differs: upstream aims at its one connection by `threadName`, here the aim is its `appName`, which a stand-in router
knows too. `errorExtraInfo` and the labels of retryable writes are of members, and asked of the primary alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.raw_connection import NETWORK_ERRORS, RawConnection, raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.retryable_writes import new_lsid, numbered
from jstests_port.sharding_test import ShardingTest

NOT_PRIMARY: dict[str, Any] = {"errorCode": ErrorCodes.NotWritablePrimary.value}
BAD_VALUE: dict[str, Any] = {"errorCode": ErrorCodes.BadValue.value}
CLOSED: dict[str, Any] = {"closeConnection": True}
VERSION = {"e": ObjectId(), "t": Timestamp(1, 1), "v": Timestamp(1, 0)}
CONCERN = {"code": 12345, "errmsg": "hello"}


@dataclass(slots=True)
class Target:
    """Whom the commands go to, over a connection that is opened again once it was cut."""

    node: Mongo
    database: str
    raw: RawConnection

    async def run(self, name: str, *, database: str | None = None, **fields: Any) -> Document:
        """The reply to a command; what it needs besides its name is filled in."""
        needed = NEEDED.get(name, {})
        collection = fields.pop("collection", "c")
        command = {name: collection if name in OF_A_COLLECTION else 1, **needed, **fields}
        return await self.raw.run_command(database or self.database, command)

    async def outcome(self, name: str) -> int | str:
        """0, the code, or `closed` where no reply came."""
        try:
            reply = await self.run(name)
        except NETWORK_ERRORS:
            return "closed"
        return 0 if reply["ok"] == 1 else int(reply["code"])

    @asynccontextmanager
    async def failing(
        self, *commands: str, mode: str | Mapping[str, Any] = "alwaysOn", **how: Any
    ) -> AsyncIterator[None]:
        """These commands of this connection, until the end of the block."""
        data = {"failCommands": list(commands), "appName": self.raw.app_name, **how}
        async with await configure_fail_point(self.node, "failCommand", data, mode):
            yield


OF_A_COLLECTION = ("find", "insert", "update", "create", "dropIndexes", "deleteIndexes")
NEEDED: Mapping[str, Document] = {
    "insert": {"documents": [{}]},
    "update": {"updates": [{"q": {}, "u": {}, "upsert": True}]},
    "dropIndexes": {"index": "*"},
    "deleteIndexes": {"index": "*"},
}


@pytest.fixture
async def on_primary(rst: ReplSetTest, test_name: str) -> AsyncIterator[Target]:
    primary = await rst.get_primary()
    await primary[test_name].create_collection("c")
    async with raw_connection(primary.host) as raw:
        yield Target(primary, test_name, raw)


@pytest.fixture
async def through_router(st: ShardingTest, test_name: str) -> AsyncIterator[Target]:
    await st.s[test_name].create_collection("c")
    async with raw_connection(st.s.host) as raw:
        yield Target(st.s, test_name, raw)


@pytest.fixture(params=["on_primary", "through_router"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue(request.param)
    return found


COURSES: dict[str, tuple[list[str], str | dict[str, int], list[tuple[str, bool]]]] = {
    "always": (["ping"], "alwaysOn", [("ping", True), ("ping", True)]),
    "others are spared": (
        ["ping"],
        "alwaysOn",
        [("hello", False), ("buildInfo", False), ("find", False), ("ping", True)],
    ),
    "several commands": (["ping", "hello"], "alwaysOn", [("buildInfo", False), ("ping", True), ("hello", True)]),
    "after two": (["ping"], {"skip": 2}, [("ping", False), ("ping", False), ("ping", True)]),
    "twice": (["ping"], {"times": 2}, [("ping", True), ("ping", True), ("ping", False)]),
    "others do not count for skip": (
        ["ping"],
        {"skip": 1},
        [("hello", False), ("buildInfo", False), ("find", False), ("ping", False), ("ping", True)],
    ),
    "others do not count for times": (
        ["ping"],
        {"times": 1},
        [("hello", False), ("buildInfo", False), ("find", False), ("ping", True), ("ping", False)],
    ),
    "an alias": (["dropIndexes"], "alwaysOn", [("dropIndexes", True), ("buildInfo", False), ("deleteIndexes", True)]),
}
"""What is to fail, in which mode; the commands sent in turn, and whether each fails."""


@pytest.mark.parametrize("course", COURSES)
async def test_the_listed_commands_fail_with_the_code(target: Target, course: str) -> None:
    listed, mode, sent = COURSES[course]

    async with target.failing(*listed, mode=mode, **BAD_VALUE):
        outcomes = [await target.outcome(name) for name, _ in sent]

    assert outcomes == [ErrorCodes.BadValue if fails else 0 for _, fails in sent]


@pytest.mark.parametrize("course", [one for one in COURSES if "several" not in one and "alias" not in one])
async def test_the_listed_commands_close_their_connection(target: Target, course: str) -> None:
    listed, mode, sent = COURSES[course]
    outcomes: list[int | str] = []

    async with target.failing(*listed, mode=mode, **CLOSED):
        for name, _ in sent:
            # Each on a connection of its own, under the name that the fail point knows.
            async with raw_connection(target.node.host, app_name=target.raw.app_name) as raw:
                outcomes.append(await Target(target.node, target.database, raw).outcome(name))

    assert outcomes == ["closed" if fails else 0 for _, fails in sent]


async def test_it_can_be_configured_again_while_it_is_on(target: Target) -> None:
    async with target.failing("ping", **NOT_PRIMARY):
        assert await target.outcome("ping") == ErrorCodes.NotWritablePrimary
        async with target.failing("ping", **NOT_PRIMARY):
            assert await target.outcome("ping") == ErrorCodes.NotWritablePrimary
        async with target.failing("hello", **NOT_PRIMARY):
            assert await target.outcome("ping") == 0


async def test_it_never_fails_the_command_that_switches_it_off(target: Target) -> None:
    async with target.failing("configureFailPoint", mode={"times": 1}, **BAD_VALUE):
        off = await target.raw.run_command("admin", {"configureFailPoint": "failCommand", "mode": "off"})

    assert off["ok"] == 1


@pytest.mark.needs_server("6.0", "StaleConfig in this form")
async def test_an_error_brings_the_details_it_was_given(on_primary: Target) -> None:
    info = {"ns": f"{on_primary.database}.c", "vReceived": VERSION, "shardId": "shard0"}
    async with on_primary.failing("create", errorCode=ErrorCodes.StaleConfig.value, errorExtraInfo=info):
        failed = await on_primary.run("create", collection="d")
    async with on_primary.failing("ping", errorExtraInfo={"desc": "some description"}):
        fine = await on_primary.run("ping")

    assert (failed.get("code"), failed.get("ns")) == (ErrorCodes.StaleConfig, info["ns"])
    assert fine["ok"] == 1


async def test_a_write_concern_error_is_told_beside_what_was_done(target: Target) -> None:
    async with target.failing("insert", "ping", mode={"times": 1}, writeConcernError=CONCERN):
        without_concern = await target.run("ping")
        not_listed = await target.run("update")
        failed = await target.run("insert")
        fine = await target.run("insert")

    assert [one.get("writeConcernError") for one in (without_concern, not_listed, fine)] == [None] * 3
    assert (failed["ok"], failed["n"], failed["writeConcernError"]) == (1, 1, CONCERN)


async def test_a_write_that_fails_by_itself_gets_the_write_concern_error_too(target: Target) -> None:
    duplicate = [{"_id": "dup"}]
    await target.run("insert", documents=duplicate)

    async with target.failing("insert", mode={"times": 1}, writeConcernError=CONCERN):
        failed = await target.run("insert", documents=duplicate)
        fine = await target.run("insert")

    assert [one["code"] for one in failed["writeErrors"]] == [ErrorCodes.DuplicateKey]
    assert failed["writeConcernError"] == CONCERN
    assert (fine["ok"], fine.get("writeConcernError")) == (1, None)


async def test_a_write_concern_error_counts_once(target: Target) -> None:
    async with target.failing("insert", mode={"times": 2}, closeConnection=False, writeConcernError=CONCERN):
        replies = [await target.run("insert") for _ in range(3)]

    assert [one.get("writeConcernError") for one in replies] == [CONCERN, CONCERN, None]


async def test_it_can_be_of_one_namespace_alone(target: Target) -> None:
    async with target.failing("find", mode={"times": 1}, namespace=f"{target.database}.foo", **BAD_VALUE):
        found = [await target.run("find", collection=name) for name in ("test", "foo")]
    namespace = f"{target.database}.foo"
    async with target.failing("insert", mode={"times": 1}, namespace=namespace, writeConcernError=CONCERN):
        written = [await target.run("insert", collection=name) for name in ("test", "foo")]

    assert [one.get("code") for one in found] == [None, ErrorCodes.BadValue]
    assert [one.get("writeConcernError") for one in written] == [None, CONCERN]


LABELS: Mapping[str, tuple[list[str], list[str] | None]] = {
    "two": (["Foo", "Bar"], ["Foo", "Bar"]),
    "none": ([], None),
}
"""As given, and as in the reply."""


@pytest.mark.parametrize("labels", LABELS)
async def test_an_error_bears_the_labels_it_was_given(target: Target, labels: str) -> None:
    given, told = LABELS[labels]
    async with target.failing("ping", mode={"times": 1}, errorLabels=given, **BAD_VALUE):
        failed, fine = await target.run("ping"), await target.run("ping")
    async with target.failing("insert", mode={"times": 1}, errorLabels=given, writeConcernError=CONCERN):
        written = await target.run("insert")

    assert (failed["code"], failed.get("errorLabels")) == (ErrorCodes.BadValue, told)
    assert fine["ok"] == 1
    assert (written["writeConcernError"], written.get("errorLabels")) == (CONCERN, told)


async def test_labels_alone_fail_nothing(target: Target) -> None:
    async with target.failing("ping", mode={"times": 1}, errorLabels=["Foo", "Bar"]):
        reply = await target.run("ping")

    assert (reply["ok"], reply.get("errorLabels")) == (1, None)


async def test_it_can_be_of_one_application_alone(target: Target) -> None:
    async with target.failing("ping", **NOT_PRIMARY):
        assert await target.outcome("ping") == ErrorCodes.NotWritablePrimary
    async with target.failing("ping", **{**NOT_PRIMARY, "appName": "made up app name"}):
        assert await target.outcome("ping") == 0


@pytest.mark.parametrize("labels", (None, ["Foo"], []), ids=str)
async def test_labels_of_a_retryable_write_are_replaced(on_primary: Target, labels: list[str] | None) -> None:
    """A numbered write that fails so is labelled RetryableWriteError by the server, unless the fail point says else."""
    how: dict[str, Any] = {} if labels is None else {"errorLabels": labels}
    told = ["RetryableWriteError"] if labels is None else labels or None
    concern = {"code": ErrorCodes.NotWritablePrimary.value, "errmsg": "hello"}
    insert = {"insert": "c", "documents": [{"x": "retryable_write"}]}

    async def sent() -> Document:
        return await on_primary.raw.run_command(on_primary.database, numbered(insert, new_lsid(), 0))

    async with on_primary.failing("insert", mode={"times": 1}, **NOT_PRIMARY, **how):
        failed = await sent()
    async with on_primary.failing("insert", mode={"times": 1}, writeConcernError=concern, **how):
        written = await sent()

    assert (failed["code"], failed.get("errorLabels")) == (ErrorCodes.NotWritablePrimary, told)
    assert (written["writeConcernError"], written.get("errorLabels")) == (concern, told)
