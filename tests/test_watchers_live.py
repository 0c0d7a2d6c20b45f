"""The watchers on real servers: a hung getMore is named with whom it waits for, the healthy is not called silent."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from clusters.cluster import of_set, primary_of
from clusters.local import LocalCluster
from clusters.member import LocalMember
from harness import stage
from harness.drivers.writers import Document
from harness.watchers import WatchedMember, Watchers
from observed import Observed, streaming

pytestmark = pytest.mark.live

THRESHOLD = 3.0
TAG = {"looks": "here"}


@asynccontextmanager
async def watching(observed: Observed) -> AsyncIterator[Watchers]:
    cluster = observed.cluster
    watchers = Watchers(
        observed.recorder,
        [WatchedMember.of(one) for one in cluster.members.values()],
        observed.namespace,
        observed.run,
        router=cluster.router,
        threshold=THRESHOLD,
        noop_interval=1.0,
    )
    await watchers.start()
    try:
        yield watchers
    finally:
        start = time.monotonic()
        await watchers.stop()
        assert time.monotonic() - start < 1.0


@asynccontextmanager
async def writing(observed: Observed, rate: float = 20) -> AsyncIterator[None]:
    writer = observed.writer(rate)
    await writer.start()
    try:
        yield
    finally:
        await writer.stop()


@pytest.fixture
async def plain(replica_set: LocalCluster, tmp_path: Path) -> AsyncIterator[Observed]:
    """On the plain replica set."""
    documents = [Document(key, "rs0", {"_id": key}) for key in "abc"]
    observed = Observed(replica_set, f"watched.{tmp_path.name}", tmp_path / "history.jsonl", documents)
    async with replica_set.client() as client:
        await client.watched[tmp_path.name].insert_many([{"_id": one.key, "seq": 0} for one in documents])
        try:
            yield observed
        finally:
            observed.recorder.close()
            await client.watched.drop_collection(tmp_path.name)


@pytest.fixture
async def pinned(sharded: LocalCluster, tmp_path: Path) -> AsyncIterator[tuple[Observed, LocalMember, LocalMember]]:
    """On the sharded cluster, with A, to which streams are pinned by tag, and B, to which the tag can be moved."""
    namespace = f"w_{tmp_path.name[-30:]}.orders"
    documents = [
        Document(f"{shard.name}-{number}", shard.name, {"_id": f"{shard.name}-{number}", "region": region})
        for region, shard in enumerate(sharded.topology.shards)
        for number in range(3)
    ]
    observed = Observed(sharded, namespace, tmp_path / "history.jsonl", documents)
    secondaries = {}
    for shard in sharded.topology.shards:
        primary = await primary_of(sharded, shard.name)
        secondaries[shard.name] = [one.name for one in of_set(sharded, shard.name) if one.name != primary.name]
    before = await stage.current_tags(sharded, [name for names in secondaries.values() for name in names])
    await stage.make_namespace(sharded, namespace, documents)
    await stage.set_tags(sharded, {names[0]: TAG for names in secondaries.values()})
    a, b = (sharded.members[name] for name in secondaries[documents[0].shard])
    try:
        yield observed, a, b
    finally:
        b.thaw()
        observed.recorder.close()
        await stage.set_tags(sharded, before)
        await stage.recovered(sharded)
        async with sharded.client() as client:
            await client.drop_database(namespace.partition(".")[0])


async def move_tag(observed: Observed, a: LocalMember, b: LocalMember) -> None:
    moved: dict[str, Mapping[str, str]] = {a.name: {}, b.name: TAG}
    await stage.set_tags(observed.cluster, moved)
    await stage.tags_seen(observed.cluster, a, moved)


async def ops_with_comment(member: LocalMember, **comment: Any) -> list[dict[str, Any]]:
    """What an independent client sees of them in `$currentOp`."""
    match = {f"command.comment.{name}": value for name, value in comment.items()}
    async with member.client() as client:
        return await current_ops(client, match)


async def current_ops(client: AsyncMongoClient[dict[str, Any]], match: dict[str, Any]) -> list[dict[str, Any]]:
    async with await client.admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": match}]) as ops:
        return await ops.to_list()


@pytest.mark.slow
async def test_without_traffic_quiet_with_traffic_delivering_and_never_an_alarm(plain: Observed) -> None:
    async with watching(plain) as watchers, streaming(plain, plain.plan(2)):
        await plain.until(lambda: len(plain.of("token", moving=True)) == 2, "tokens known")
        await asyncio.sleep(THRESHOLD + 0.5)
        assert {one.state for one in watchers.states().values()} == {"quiet"}
        async with writing(plain):
            await plain.until(lambda: len(plain.of("stream.state", state="delivering")) == 2, "both deliver")
            await asyncio.sleep(THRESHOLD + 0.5)
            assert {one.state for one in watchers.states().values()} == {"delivering"}
        assert await watchers.delivered(deadline=5)
        assert watchers.alarms() == {}
        assert all(view.ok for views in watchers.views().values() for view in views.values())
        assert {len(views) for views in watchers.views().values()} == {4}
    assert {one["state"] for one in plain.of("stream.state")} == {"quiet", "delivering"}
    assert not plain.of("alarm")
    # The no-op writer ticks once a second here: the token of an idle stream never stood still.
    assert {one["moving"] for one in plain.of("token")} == {True}


@pytest.mark.alone
@pytest.mark.slow
async def test_the_lookup_that_waits_for_a_frozen_member_is_named_within_a_second(
    pinned: tuple[Observed, LocalMember, LocalMember],
) -> None:
    observed, a, b = pinned
    plan = observed.plan(2, read_preference="secondary", tags=TAG, max_await_time_ms=None)
    async with watching(observed) as watchers, streaming(observed, plan):
        async with writing(observed):
            await observed.until(lambda: len(observed.of("stream.event")) > 20, "events")
            await move_tag(observed, a, b)
            b.freeze()
            await observed.until(lambda: len(observed.of("alarm")) >= 2, "an alarm for each stream")
            seen = await ops_with_comment(a, run=observed.run)
            b.thaw()
            await observed.until(lambda: len(observed.of("alarm.cleared")) >= 2, "alarms cleared")
        assert await watchers.delivered(deadline=20)
        assert observed.exact("s1")
        assert observed.exact("s2")
    assert not observed.of("stream.error")
    for stream in ("s1", "s2"):
        alarm = observed.of("alarm", stream=stream)[0]
        (silent,) = observed.of("stream.state", stream=stream, state="silent")
        last = max(one.t for one in observed.of("stream.event", stream=stream) if one.t < silent.t)
        assert silent["since"] >= last
        assert THRESHOLD <= alarm["after_seconds"] <= THRESHOLD + 1.0
        assert (alarm["getmore"]["member"], alarm["getmore"]["source"]) == (a.name, "currentOp")
        assert alarm["getmore"]["seconds"] > alarm["getmore"]["max_time_ms"] / 1000 + 1
        mine = [
            op["opid"] for op in seen if "getMore" in op["command"] and op["command"]["comment"]["stream"] == stream
        ]
        assert mine == [alarm["getmore"]["opid"]]
        assert alarm["waits_for"] == b.name
        assert f"2 in use towards {b.name}" in alarm["known_by"]
        assert alarm["canary"]["hello"]["ok"] is False
    assert observed.of("token", moving=False, cluster_time_moving=True)
    parked = observed.of("canary", member=b.name, parked=True)
    assert sorted(one["probe"] for one in parked) == ["aggregate", "causal", "find", "hello"]


@pytest.mark.slow
async def test_a_lookup_parked_on_a_live_member_is_found_there_and_the_canary_parks_only_once(
    pinned: tuple[Observed, LocalMember, LocalMember],
) -> None:
    """A partial stall: hello, find and causal reads are answered, aggregates on the one namespace are not."""
    observed, a, b = pinned
    plan = observed.plan(1, read_preference="secondary", tags=TAG, max_await_time_ms=None)
    async with watching(observed) as watchers, streaming(observed, plan), b.client() as direct:
        async with writing(observed):
            await observed.until(lambda: len(observed.of("stream.event")) > 10, "events")
            await move_tag(observed, a, b)
            stall = {"ns": observed.namespace, "commands": ["aggregate"]}
            name = "waitAfterCommandFinishesExecution"
            await direct.admin.command("configureFailPoint", name, mode="alwaysOn", data=stall)
            try:
                await observed.until(lambda: bool(observed.of("alarm")), "an alarm")
                await observed.until(
                    lambda: len(observed.of("canary", member=b.name, probe="hello")) > 5, "some rounds"
                )
                assert len(await ops_with_comment(b, run=observed.run, canary="aggregate")) == 1
            finally:
                await direct.admin.command("configureFailPoint", name, mode="off")
            await observed.until(lambda: bool(observed.of("alarm.cleared")), "alarm cleared")
        assert await watchers.delivered(deadline=20)
        await observed.until(
            lambda: observed.of("canary", member=b.name, probe="aggregate")[-1]["ok"], "the parked probe is asked again"
        )
    alarm = observed.of("alarm")[0]
    assert alarm["waits_for"] == b.name
    assert alarm["known_by"].startswith(f"lookup in $currentOp of {b.name}, opid ")
    assert {probe: view["ok"] for probe, view in alarm["canary"].items()} == {
        "hello": True,
        "find": True,
        "causal": True,
        "aggregate": False,
    }
    assert observed.of("lookup")[0]["member"] == b.name
    assert len(observed.of("canary", member=b.name, ok=False)) == 1


async def test_on_a_replica_set_a_frozen_member_is_known_by_its_canary(plain: Observed) -> None:
    """The getMore sits on the member that cannot be asked: only the canary tells."""
    (_, frozen, other) = [one for one in plain.cluster.members.values() if isinstance(one, LocalMember)]
    async with watching(plain) as watchers, other.client() as client:
        plan = plain.plan(1, uri=f"mongodb://{frozen.host}/?directConnection=true", max_await_time_ms=None)
        async with streaming(plain, plan):
            async with writing(plain):
                await plain.until(lambda: len(plain.of("stream.event")) > 10, "events")
                frozen.freeze()
                try:
                    await plain.until(lambda: bool(plain.of("alarm")), "an alarm")
                finally:
                    frozen.thaw()
                await plain.until(lambda: bool(plain.of("alarm.cleared")), "alarm cleared")
            assert await watchers.delivered(deadline=20)
        await stage.recovered(plain.cluster)
        assert await client.admin.command("ping")
    alarm = plain.of("alarm")[0]
    assert (alarm["getmore"], alarm["waits_for"]) == (None, frozen.name)
    assert alarm["known_by"].startswith("canary: no ")
    assert alarm["after_seconds"] <= THRESHOLD + 1.0
    assert {one["member"] for one in plain.of("canary", ok=False)} == {frozen.name}


async def test_paused_replication_shows_in_the_causal_probe_alone(plain: Observed) -> None:
    member = list(plain.cluster.members.values())[1]
    async with watching(plain), member.client() as direct, writing(plain):
        await plain.until(lambda: len(plain.of("canary", member=member.name, probe="causal")) > 0, "a probe")
        await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="alwaysOn")
        try:
            await plain.until(lambda: bool(plain.of("canary", member=member.name, ok=False)), "a failing probe")
        finally:
            await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="off")
        await plain.until(lambda: plain.of("canary", member=member.name, probe="causal")[-1]["ok"], "recovered")
    failed = plain.of("canary", ok=False)
    assert {(one["member"], one["probe"], one["error"]) for one in failed} == {
        (member.name, "causal", "50 MaxTimeMSExpired")
    }


@pytest.mark.matrix
@pytest.mark.slow
async def test_on_an_overloaded_machine_no_stream_is_called_silent(plain: Observed) -> None:
    burners = [await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass") for _ in range(4)]
    try:
        async with watching(plain) as watchers, streaming(plain, plain.plan(8)):
            async with writing(plain):
                await asyncio.sleep(2 * THRESHOLD)
                await plain.until(lambda: len(plain.of("stream.event")) > 8 * 20, "enough to judge by")
            assert await watchers.delivered(deadline=20)
    finally:
        for burner in burners:
            burner.kill()
            await burner.wait()
    assert "silent" not in {one["state"] for one in plain.of("stream.state")}
    assert not plain.of("alarm")
