"""Upstream: jstests/sharding/retryable_mongos_write_errors.js

A write whose router is told to end fails, and never seems done: its connection is cut, or the reply has 11600
InterruptedAtShutdown at its top and not among its write errors, where a driver that retries would not look.

Differs: the fail point is waited for by its count, not in the log; and the shard is seen to carry the write out.
"""

from __future__ import annotations

from jstests_port.assertions import assert_soon
from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document
from jstests_port.parallel import parallel_shell
from jstests_port.raw_connection import NETWORK_ERRORS, raw_connection
from jstests_port.sharding_test import ShardingTest

DOCUMENTS = [{"a": number, "b": "retryable"} for number in range(10)]


async def test_a_router_that_ends_does_not_answer_a_write_in_flight_as_done(st: ShardingTest, test_name: str) -> None:
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s[test_name].create_collection("c")
    collection = (await st.rs0.get_primary())[test_name].c
    router = st.cluster.router_process
    assert router is not None

    async def insert() -> Document | Exception:
        try:
            async with raw_connection(st.s.host) as own:
                return await own.run_command(test_name, {"insert": "c", "documents": DOCUMENTS})
        except NETWORK_ERRORS as error:
            return error

    hang = await configure_fail_point(
        await st.rs0.get_primary(), "hangAfterCollectionInserts", {"collectionNS": collection.full_name}
    )
    try:
        async with parallel_shell(insert(), "insert") as inserting:
            await hang.wait()
            assert not inserting.done()
            await router.stop()
            outcome = await inserting.join()
    finally:
        await hang.off()
        await router.start()

    if isinstance(outcome, dict):
        assert (outcome["ok"], outcome.get("code")) == (0, ErrorCodes.InterruptedAtShutdown)

    async def written() -> bool:
        return await collection.count_documents({}) == len(DOCUMENTS)

    await assert_soon(written, "the shard has carried the insert out")
