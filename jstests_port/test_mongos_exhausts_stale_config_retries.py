"""Upstream: jstests/sharding/mongos_exhausts_stale_config_retries.js

A router that gets nothing but stale answers gives up: a read fails with the shard's last StaleConfig, a batch of writes
has NoProgressMade among the write errors of a reply that is ok.

Differs: 6.0 has no alwaysThrowStaleConfigInfo; there failCommand answers for the shard. A stand-in router passes finds
and writes without a number on to the router code inside a mongod; what it retries by itself, and for longer than a
mongos, and its own `create` need a mongos.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest
from bson.timestamp import Timestamp

from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import ConfiguredFailPoint, configure_fail_point
from jstests_port.mongo import Document
from jstests_port.raw_connection import RawConnection, raw_connection
from jstests_port.sharding_test import ShardingTest

pytestmark = pytest.mark.needs_server("6.0", "a router inside its mongods")

READS: Mapping[str, Document] = {
    "find": {"find": "foo"},
    "aggregate": {"aggregate": "foo", "pipeline": [], "cursor": {}},
    "count": {"count": "foo"},
    "distinct": {"distinct": "foo", "query": {}, "key": "_id"},
    "findAndModify": {"findAndModify": "foo", "query": {"_id": 0}, "update": {"$set": {"x": 1}}},
}
WRITES: Mapping[str, Document] = {
    "insert": {"insert": "foo", "documents": [{"_id": 5}]},
    "update": {"update": "foo", "updates": [{"q": {"_id": 0}, "u": {"$set": {"x": 1}}}]},
    "delete": {"delete": "foo", "deletes": [{"q": {"_id": 0}, "limit": 1}]},
}


@pytest.fixture
async def router(st: ShardingTest, test_name: str) -> AsyncIterator[RawConnection]:
    """To a collection whose one chunk was moved to the second shard, and has one document."""
    collection = st.s[test_name].foo
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"_id": 1})
    await collection.insert_one({"_id": 0})
    await st.move_chunk(collection, {"_id": 0}, st.rs1.name, wait_for_delete=True)
    async with raw_connection(st.s.host) as router:
        yield router


async def answering_stale(st: ShardingTest, database: str, command: str) -> ConfiguredFailPoint:
    """The shard calls every router stale that sends it that command for the collection."""
    namespace = f"{database}.foo"
    collection = await st.s.config.collections.find_one({"_id": namespace})
    assert collection is not None
    version = {"t": collection["timestamp"], "e": collection["lastmodEpoch"], "v": Timestamp(1, 0)}
    data = {
        "failCommands": [command],
        "failInternalCommands": True,
        "namespace": namespace,
        "errorCode": ErrorCodes.StaleConfig.value,
        "errorExtraInfo": {"ns": namespace, "vReceived": version, "shardId": st.rs1.name},
    }
    return await configure_fail_point(await st.rs1.get_primary(), "failCommand", data)


NOT_PASSED_ON = [pytest.param(name, marks=pytest.mark.needs_mongos) for name in READS if name != "find"]


@pytest.mark.parametrize("name", ["find", *NOT_PASSED_ON])
async def test_a_read_fails_with_the_last_stale_answer(
    st: ShardingTest, router: RawConnection, test_name: str, name: str
) -> None:
    async with await answering_stale(st, test_name, name):
        failed = await router.run_command(test_name, READS[name])

    assert (failed["ok"], failed.get("code")) == (0, ErrorCodes.StaleConfig)
    assert (await router.run_command(test_name, READS[name]))["ok"] == 1


@pytest.mark.parametrize("name", WRITES)
async def test_a_batch_of_writes_made_no_progress(
    st: ShardingTest, router: RawConnection, test_name: str, name: str
) -> None:
    async with await answering_stale(st, test_name, name):
        failed = await router.run_command(test_name, WRITES[name])
        left = await (await st.rs1.get_primary())[test_name].foo.find().to_list()

    assert (failed["ok"], failed["n"]) == (1, 0)
    assert [one["code"] for one in failed["writeErrors"]] == [ErrorCodes.NoProgressMade]
    assert left == [{"_id": 0}]


LEARNS_NOTHING: Mapping[str, Document] = {
    "insert": {"insert": "collName", "documents": [{"x": 10}]},
    "create": {"create": "coll3"},
}


@pytest.mark.parametrize("name", ["insert", pytest.param("create", marks=pytest.mark.needs_mongos)])
async def test_a_shard_that_cannot_learn_its_chunks_makes_no_router_fail_as_stale(
    st: ShardingTest, router: RawConnection, test_name: str, name: str
) -> None:
    """A shard that was started again knows no chunk, and is kept from reading them."""
    member = st.rs0.member(st.rs0.nodes[0])
    await member.kill()
    await member.start()
    primary = await st.rs0.get_primary()

    async with await configure_fail_point(primary, "skipShardFilteringMetadataRefresh"):
        failed = await router.run_command(test_name, LEARNS_NOTHING[name])

    if name == "create":
        assert (failed["ok"], failed.get("code")) == (0, ErrorCodes.InternalError)
    else:
        assert [one["code"] for one in failed["writeErrors"]] == [ErrorCodes.NoProgressMade]
