"""Consumers on a replica set of real servers: what they record, and how often a record is written."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clusters.local import LocalCluster
from harness.drivers.clients import Driver, OptionValue, close_client, open_client
from harness.drivers.consumers import Consumers, ConsumersPlan, in_group
from harness.drivers.effects import record_effects
from harness.drivers.kafka import NoOffsetForPartition
from harness.drivers.kinds import KINDS
from harness.drivers.polling import Handling
from harness.drivers.retries import fixed
from harness.drivers.warming import NotWarm, warm
from observed import Observed
from write_parts import Heard, failing

both_drivers = pytest.mark.parametrize("driver", ["pymongo", "motor"])
both_ways = pytest.mark.parametrize("seek_after_error", [True, False], ids=["seeking back", "in place"])

ONCE = Handling(fixed(0, 0))


@pytest.fixture
async def observed(replica_set: LocalCluster, tmp_path: Path) -> AsyncIterator[Observed]:
    name = secrets.token_hex(4)
    observed = Observed(replica_set, f"consumers.{name}", tmp_path / "history.jsonl", ())
    try:
        yield observed
    finally:
        observed.recorder.close()
        async with replica_set.client() as client:
            await client.consumers.drop_collection(name)


def planned(observed: Observed, kind: str = "insert", handling: Handling = ONCE, **changes: Any) -> ConsumersPlan:
    return ConsumersPlan(observed.cluster.uri, observed.namespace, observed.run, KINDS[kind], handling, **changes)


@asynccontextmanager
async def consuming(
    observed: Observed, plan: ConsumersPlan, *listeners: Heard, rate: float | None = None
) -> AsyncIterator[Consumers]:
    consumers = Consumers(observed.recorder, plan, listeners)
    try:
        await consumers.start()
        consumers.produce(rate)
        yield consumers
    finally:
        await consumers.stop()


async def left(observed: Observed) -> list[dict[str, Any]]:
    return await record_effects(observed.recorder, observed.cluster.uri, observed.namespace, observed.run)


def outcomes(observed: Observed) -> list[str]:
    return [one["outcome"] for one in observed.of("execution.ended")]


# --- without a server


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        ("insert", {"records": 0}, "expected records of at least 1, found 0"),
        ("insert", {"consumers": 0}, "expected consumers of at least 1"),
        ("insert", {"partitions": 0}, "expected partitions of at least 1"),
        ("set", {"max_time_ms": 100}, "the driver has no maxTimeMS for it"),
        ("w0", {"explicit_session": True}, "the driver refuses an explicit session"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(kind: str, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ConsumersPlan("mongodb://127.0.0.1/", "a.b", "run1", KINDS[kind], ONCE, **changes)


def test_a_plan_does_not_show_its_uri() -> None:
    plan = ConsumersPlan("mongodb://me:secret@127.0.0.1/", "a.b", "run1", KINDS["insert"], ONCE)
    assert "secret" not in repr(plan)


def test_records_are_dealt_out_to_the_partitions_in_turn() -> None:
    plan = ConsumersPlan("mongodb://127.0.0.1/", "a.b", "run1", KINDS["insert"], ONCE, partitions=2, records=5)
    assert plan.writes == ["orders/0/0", "orders/1/0", "orders/0/1", "orders/1/1", "orders/0/2"]


# --- on real servers


@pytest.mark.live
@both_drivers
@pytest.mark.parametrize("shared", [False, True], ids=["a client each", "one client"])
async def test_every_record_is_written_once_and_committed(observed: Observed, shared: bool, driver: Driver) -> None:
    plan = planned(observed, partitions=4, records=20, consumers=2, shared_client=shared, driver=driver)
    async with consuming(observed, plan) as consumers:
        assert await consumers.finished(30)
        counters = consumers.counters
    assert (counters.executions, counters.ok, counters.in_flight) == (20, 20, 0)
    assert (counters.polled, counters.processed, counters.committed) == (20, 20, 20)
    assert (counters.redelivered, counters.dead, counters.commits_failed, counters.expelled) == (0, 0, 0, 0)
    documents = await left(observed)
    assert documents == [{"write": write, "execution": 1} for write in sorted(plan.writes)]
    assert observed.of("effects")[-1]["documents"] == documents
    assert {one["consumer"] for one in observed.of("execution.begun")} == {"c1", "c2"}


@pytest.mark.live
async def test_the_course_of_a_record_stands_in_the_history(observed: Observed) -> None:
    async with consuming(observed, planned(observed)) as consumers:
        assert await consumers.finished(30)
    mine = [one for one in observed.history if one.kind != "consumer"]
    assert [(one.kind, one.get("what")) for one in mine] == [
        ("record", "polled"),
        ("execution.begun", None),
        ("execution.ended", None),
        ("record", "processed"),
        ("record", "committed"),
    ]
    assert {one["write"] for one in mine} == {"orders/0/0"}
    assert {one.source for one in observed.history} == {"consumer"}
    begun, ended = mine[1], mine[2]
    assert (begun["execution"], begun["consumer"]) == (1, "c1")
    assert (ended["execution"], ended["outcome"], ended["error"], ended["labels"]) == (1, "ok", None, [])
    assert ended["effect"] == {"matched": 0, "modified": 0, "inserted": 1, "upserted": 0, "deleted": 0}
    assert 0 < ended["seconds"] < 30
    changes = [(one["what"], one["consumer"], one["partitions"]) for one in observed.of("consumer")]
    assert changes == [
        ("joined", "c1", []),
        ("assigned", "c1", ["orders/0"]),
        ("revoked", "c1", ["orders/0"]),
        ("left", "c1", ["orders/0"]),
    ]


@pytest.mark.live
async def test_what_the_server_turns_down_has_failed_and_is_dead_after_the_last_retry(observed: Observed) -> None:
    database, _, name = observed.namespace.partition(".")
    async with observed.cluster.client() as client:
        await client[database].create_collection(name, validator={"write": {"$ne": "orders/0/1"}})
    plan = planned(observed, handling=Handling(fixed(0, 2)), records=3)
    async with consuming(observed, plan) as consumers:
        assert await consumers.finished(30)
        assert [one.headers["kafka_dlt-original-offset"] for one in consumers.log.dead_letters("orders")] == ["1"]
        counters = consumers.counters
    assert outcomes(observed) == ["ok", "failed", "failed", "failed", "ok"]
    assert (counters.dead, counters.processed, counters.committed) == (1, 2, 3)
    failed = observed.of("execution.ended", outcome="failed")
    assert {(one["write"], one["code"]) for one in failed} == {("orders/0/1", 121)}
    assert [one["execution"] for one in failed] == [1, 2, 3]
    assert len(await left(observed)) == 2


@pytest.mark.live
@both_ways
@both_drivers
async def test_an_error_that_may_have_been_after_the_write_is_unknown_and_tried_again(
    observed: Observed, seek_after_error: bool, driver: Driver
) -> None:
    plan = planned(observed, handling=Handling(fixed(0, 3), seek_after_error), records=2, driver=driver)
    async with (
        failing(observed.cluster, plan.app_name, "insert", {"times": 2}, errorCode=11601),
        consuming(observed, plan) as consumers,
    ):
        assert await consumers.finished(30)
    assert outcomes(observed) == ["unknown", "unknown", "ok", "ok"]
    assert [one["execution"] for one in observed.of("execution.begun")] == [1, 2, 3, 1]
    assert observed.of("execution.ended")[0]["code_name"] == "Interrupted"
    # Both records were in hand, so both come again with each of the two retries.
    assert len(observed.of("record", what="redelivered")) == (4 if seek_after_error else 0)


@pytest.mark.slow
@pytest.mark.live
@both_drivers
async def test_with_answers_lost_each_execution_is_sent_twice_and_each_leaves_a_document(
    observed: Observed, driver: Driver
) -> None:
    plan = planned(
        observed,
        handling=Handling(fixed(0, 3)),
        driver=driver,
        driver_options={"socketTimeoutMS": 300, "retryWrites": True},
        warm=10,
    )
    heard = Heard()
    async with (
        failing(observed.cluster, plan.app_name, "insert", {"times": 8}, blockConnection=True, blockTimeMS=3500),
        consuming(observed, plan, heard) as consumers,
    ):
        assert await consumers.finished(30)
        assert consumers.counters.dead == 1
    assert outcomes(observed) == ["unknown"] * 4
    assert {one["error"].partition(":")[0] for one in observed.of("execution.ended")} == {"NetworkTimeout"}
    sends = [one["comment"]["execution"] for one in heard.commands]
    assert sends == [1, 1, 2, 2, 3, 3, 4, 4]
    assert len(set(heard.transactions)) == 4
    assert await left(observed) == [{"write": "orders/0/0", "execution": number} for number in (1, 2, 3, 4)]


@pytest.mark.slow
@pytest.mark.live
@both_drivers
@pytest.mark.parametrize("rebalance", ["eager", "cooperative"])
async def test_a_consumer_past_its_poll_interval_writes_on_while_another_writes_its_record_again(
    observed: Observed, rebalance: Any, driver: Driver
) -> None:
    group = in_group(max_poll_interval_ms=2500, heartbeat_interval_ms=100, rebalance=rebalance)
    plan = planned(observed, consumers=2, group=group, driver=driver)
    async with (
        failing(observed.cluster, plan.app_name, "insert", {"times": 1}, blockConnection=True, blockTimeMS=6000),
        consuming(observed, plan) as consumers,
    ):
        assert await consumers.finished(30)
        # The other one had committed long before: what is still executed was waited for.
        assert consumers.counters.in_flight == 0
    first, second = observed.of("execution.begun")
    assert first["consumer"] != second["consumer"]
    assert (first["execution"], second["execution"]) == (1, 2)
    assert outcomes(observed) == ["ok", "ok"]
    [expelled] = observed.of("consumer", what="expelled")
    assert (expelled["consumer"], expelled["detail"]) == (first["consumer"], "max.poll.interval.ms")
    [redelivered] = observed.of("record", what="redelivered")
    assert redelivered["detail"] == f"before at {first['consumer']}"
    assert [one["consumer"] for one in observed.of("record", what="commit failed")] == [first["consumer"]]
    assert [one["consumer"] for one in observed.of("record", what="committed")] == [second["consumer"]]
    assert [one["execution"] for one in await left(observed)] == [1, 2]


@pytest.mark.live
async def test_an_only_consumer_past_its_poll_interval_writes_its_record_again_itself(observed: Observed) -> None:
    plan = planned(observed, group=in_group(max_poll_interval_ms=1500, heartbeat_interval_ms=100))
    async with (
        failing(observed.cluster, plan.app_name, "insert", {"times": 1}, blockConnection=True, blockTimeMS=3500),
        consuming(observed, plan) as consumers,
    ):
        assert await consumers.finished(30)
        counters = consumers.counters
    assert (counters.executions, counters.commits_failed, counters.committed) == (2, 1, 1)
    assert [one["execution"] for one in await left(observed)] == [1, 2]


@pytest.mark.live
@both_drivers
@pytest.mark.parametrize("explicit", [False, True], ids=["implicit", "explicit"])
async def test_after_a_lost_connection_only_an_explicit_session_is_used_again(
    observed: Observed, explicit: bool, driver: Driver
) -> None:
    plan = planned(observed, handling=Handling(fixed(0, 1)), explicit_session=explicit, driver=driver)
    heard = Heard()
    async with (
        failing(observed.cluster, plan.app_name, "insert", {"times": 2}, closeConnection=True),
        consuming(observed, plan, heard) as consumers,
    ):
        assert await consumers.finished(30)
    assert outcomes(observed) == ["unknown", "ok"]
    sessions = [lsid for lsid, _ in heard.transactions]
    assert sessions[0] == sessions[1]
    assert (sessions[2] == sessions[0]) is explicit
    assert [number for _, number in heard.transactions] == [1, 1, 2 if explicit else 1]


@pytest.mark.live
@pytest.mark.parametrize("kind", ["update-many", "delete-many"])
async def test_what_a_write_of_many_is_aimed_at_is_there_before(observed: Observed, kind: str) -> None:
    heard = Heard()
    async with consuming(observed, planned(observed, kind, records=3, partitions=2), heard) as consumers:
        assert await consumers.finished(30)
        plan = consumers.plan
    documents = await left(observed)
    for write in plan.writes:
        assert plan.kind.held(one for one in documents if one["write"] == write) == plan.kind.expected((1,))
    # Their preparation is no send of the write.
    assert [one["name"] for one in heard.commands] == [plan.kind.command] * 3


@pytest.mark.slow
@pytest.mark.live
async def test_an_execution_without_an_answer_when_all_is_stopped_is_unknown(observed: Observed) -> None:
    plan = planned(observed)
    async with failing(observed.cluster, plan.app_name, "insert", {"times": 1}, blockConnection=True, blockTimeMS=3000):
        consumers = Consumers(observed.recorder, plan)
        await consumers.start()
        consumers.produce()
        assert not await consumers.finished(0.5)
        assert consumers.counters.in_flight == 1
        start = time.monotonic()
        await consumers.stop(deadline=0.3)
        assert time.monotonic() - start < 3
    [ended] = observed.of("execution.ended")
    assert (ended["outcome"], ended["error"]) == ("unknown", "no answer when the consumer was stopped")
    assert observed.of("record", what="committed") == []


@pytest.mark.live
async def test_reading_from_the_latest_offset_on_misses_no_record_of_the_run(observed: Observed) -> None:
    plan = planned(observed, records=4, partitions=2, group=in_group(auto_offset_reset="latest"))
    async with consuming(observed, plan) as consumers:
        assert await consumers.finished(30)
        assert consumers.counters.committed == 4


@pytest.mark.live
async def test_without_an_offset_and_without_a_reset_the_start_fails(observed: Observed) -> None:
    consumers = Consumers(observed.recorder, planned(observed, group=in_group(auto_offset_reset="none")))
    with pytest.raises(NoOffsetForPartition):
        await consumers.start()
    with pytest.raises(NoOffsetForPartition):
        await consumers.stop()


async def _connections(cluster: LocalCluster, app_name: str) -> int:
    """Of the application, at the primary, the driver's two for monitoring left out."""
    pipeline: Sequence[dict[str, Any]] = [
        {"$currentOp": {"allUsers": True, "idleConnections": True}},
        {"$match": {"appName": app_name, "command.maxAwaitTimeMS": {"$exists": False}}},
    ]
    async with cluster.client() as client:
        return len(await (await client.admin.aggregate(pipeline)).to_list())


@pytest.mark.live
@both_drivers
async def test_warm_connections_are_open_and_idle_before_the_first_record(observed: Observed, driver: Driver) -> None:
    client = open_client(observed.cluster.uri, app_name=f"warm {driver}", driver=driver)
    try:
        await client.admin.command("ping")
        assert await _connections(observed.cluster, f"warm {driver}") < 6
        await warm(client, 12)
        assert await _connections(observed.cluster, f"warm {driver}") >= 12
    finally:
        await close_client(client)


@pytest.mark.live
@both_drivers
async def test_connections_are_warmed_under_a_time_limit_that_turns_waiting_into_an_error(
    observed: Observed, driver: Driver
) -> None:
    limit: dict[str, OptionValue] = {"timeoutMS": 3000}
    client = open_client(observed.cluster.uri, options=limit, app_name=f"limited {driver}", driver=driver)
    try:
        await client.admin.command("ping")
        await warm(client, 12, limit)
        assert await _connections(observed.cluster, f"limited {driver}") >= 12
    finally:
        await close_client(client)


@pytest.mark.live
@pytest.mark.parametrize("shared", [False, True], ids=["a client each", "one client"])
async def test_each_client_of_the_consumers_is_warm_when_the_records_come(observed: Observed, shared: bool) -> None:
    plan = planned(observed, consumers=2, shared_client=shared, warm=8)
    async with consuming(observed, plan):
        found = await _connections(observed.cluster, plan.app_name)
    assert 8 <= found < 14 if shared else found >= 16


@pytest.mark.live
async def test_records_come_so_many_a_second_where_that_is_asked_for(observed: Observed) -> None:
    plan = planned(observed, records=11)
    began = time.monotonic()
    async with consuming(observed, plan, rate=20) as consumers:
        assert await consumers.finished(30)
        assert time.monotonic() - began >= 0.5
    polled = [one.t for one in observed.of("record", what="polled")]
    assert polled[-1] - polled[0] > 0.4e9


@pytest.mark.live
async def test_consumers_that_are_stopped_while_records_come_are_given_no_more(observed: Observed) -> None:
    plan = planned(observed, records=1000)
    async with consuming(observed, plan, rate=5) as consumers:
        assert not await consumers.finished(0.5)
    assert 1 <= consumers.counters.polled < 10


@pytest.mark.live
@pytest.mark.parametrize(
    ("limit", "found"), [({"socketTimeoutMS": 400}, 2), ({"timeoutMS": 3000}, 0)], ids=["socketTimeoutMS", "timeoutMS"]
)
async def test_more_warm_connections_than_the_pool_may_have_are_refused(
    observed: Observed, limit: dict[str, OptionValue], found: int
) -> None:
    client = open_client(observed.cluster.uri, options={"maxPoolSize": 2, **limit})
    try:
        with pytest.raises(NotWarm, match=rf"expected 3 within 1\.5 s, found {found}"):
            await warm(client, 3, limit, deadline=1.5)
    finally:
        await close_client(client)


@pytest.mark.live
async def test_two_consumers_of_an_own_session_each_do_not_share_it(observed: Observed) -> None:
    heard = Heard()
    plan = planned(observed, partitions=2, records=6, consumers=2, explicit_session=True, shared_client=True)
    async with consuming(observed, plan, heard) as consumers:
        assert await consumers.finished(30)
    by_partition: dict[str, set[bytes]] = {}
    for command, (lsid, _) in zip(heard.commands, heard.transactions, strict=True):
        by_partition.setdefault(command["comment"]["write"].split("/")[1], set()).add(lsid)
    assert [len(lsids) for lsids in by_partition.values()] == [1, 1]
    assert len(set().union(*by_partition.values())) == 2
