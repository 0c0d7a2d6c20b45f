"""Upstream: jstests/sharding/shard_invalidated_for_targeting.js (there is none; this is where one would lie)

Who waits while a router that knows one shard to be stale reads the routing table again. With finer-grained refreshes
only what would go to that shard waits, and is told 304 ShardInvalidatedForTargeting where the router does not try
again; with coarse ones everything of the collection waits.

Differs: nothing; it is new. The routers are those inside the shards of one cluster (`cluster...` commands, 6.0), one of
each kind: the coarse one shows that the test has power. `enableFinerGrainedCatalogCacheRefresh` is off by default on
6.0.5, and can be given at the start alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest
from bson.max_key import MaxKey

from clusters.quirks import major_of
from jstests_port import servers
from jstests_port.assertions import assert_soon
from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import ConfiguredFailPoint, configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import ParallelShell, parallel_shell
from jstests_port.raw_connection import raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.sharding_test import ShardingTest
from jstests_port.unseen import move_range_unseen, split_unseen

pytestmark = pytest.mark.needs_server("6.0", "routers inside the shards")

SETTING: Final = "enableFinerGrainedCatalogCacheRefresh"
PROBE_MS: Final = 300
"""Limit of a probe, which would wait for the refresh otherwise."""


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[ShardingTest]:
    """Three shards; the router inside the third is finer-grained."""
    if major_of(servers.version()) > (6, 0):
        pytest.skip(f"needs a server with {SETTING} (6.0); this is {servers.version()}")
    parameters = {"shard2-0": {SETTING: "true"}}
    async with ShardingTest(3, 1, parameters=parameters, name="jstests-targeting") as st:
        yield st


@dataclass(frozen=True, slots=True)
class Router:
    """The router inside a shard, and a collection of which it takes itself to know everything.

    Chunks: below 0 on shard0, [0, 50) and [50, 100) on shard1, from 100 on shard2; `bystander` is another collection.
    """

    st: ShardingTest
    node: Mongo
    database: str

    async def run(self, command: Mapping[str, object]) -> Document:
        async with raw_connection(self.node.host) as own:
            return await own.run_command(self.database, command)

    async def find(self, region: int, collection: str = "c") -> Document:
        return await self.run({"clusterFind": collection, "filter": {"region": region}})

    async def inc(self, region: int) -> Document:
        updates = [{"q": {"region": region}, "u": {"$inc": {"n": 1}}}]
        return await self.run({"clusterUpdate": "c", "updates": updates})

    async def probe(self, region: int) -> int:
        """0, or the code of an aggregate, which the router inside a mongod does not try again."""
        pipeline = [{"$match": {"region": region}}]
        reply = await self.run({"clusterAggregate": "c", "pipeline": pipeline, "cursor": {}, "maxTimeMS": PROBE_MS})
        return 0 if reply["ok"] == 1 else int(reply["code"])

    async def refreshes(self) -> Document:
        statistics = (await self.node.admin.command("serverStatus"))["shardingStatistics"]["catalogCache"]
        return {name: statistics[name] for name in COUNTED}


COUNTED: Final = (
    "countStaleConfigErrors",
    "countIncrementalRefreshesStarted",
    "countFullRefreshesStarted",
    "countFailedRefreshes",
)
REGIONS: Final = (-5, 1, 52, 150)
STALE_REGION, SAME_SHARD = 52, 1
BYSTANDERS: Final = (-5, 150)
"""Regions on the shards that did not change."""


async def prepared(st: ShardingTest, of: ReplSetTest, database: str) -> Router:
    """Stale for shard1 alone, and not knowing it: a chunk there was split, which raised the version of no other."""
    collection = st.s[database].c
    await st.enable_sharding(database, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"region": 1})
    for lower, upper, shard in ((0, 50, st.rs1), (50, 100, st.rs1), (100, MaxKey(), st.rs2)):
        await move_range_unseen(st, collection.full_name, shard.name, {"region": lower}, {"region": upper})
    await collection.insert_many({"_id": region, "region": region, "n": 0} for region in REGIONS)
    await st.s[database].bystander.insert_one({"region": 1})
    router = Router(st, await of.get_primary(), database)
    for region in REGIONS:
        assert len((await router.find(region))["cursor"]["firstBatch"]) == 1
    await router.find(1, "bystander")
    await split_unseen(st, collection.full_name, {"region": 75})
    return router


class Held:
    """The refresh of a stale router, held up; and what waits for it."""

    def __init__(self, router: Router, stack: AsyncExitStack, hold: ConfiguredFailPoint) -> None:
        self.router, self._stack, self._hold = router, stack, hold
        self.waiting: list[ParallelShell[Document]] = []

    async def start(self, *commands: tuple[str, int]) -> None:
        """Finds and incs that may wait; the first of all begins the refresh."""
        for verb, region in commands:
            work = self.router.find(region) if verb == "find" else self.router.inc(region)
            self.waiting.append(await self._stack.enter_async_context(parallel_shell(work, f"{verb} {region}")))

    async def entered(self) -> None:
        await self._hold.wait()

    async def release(self) -> list[Document]:
        await self._hold.off()
        return [await one.join() for one in self.waiting]


@pytest.fixture
async def finer(cluster: ShardingTest, test_name: str) -> AsyncIterator[Held]:
    async with holding(await prepared(cluster, cluster.rs2, f"{test_name}_fine")) as held:
        yield held


@pytest.fixture
async def coarse(cluster: ShardingTest, test_name: str) -> AsyncIterator[Held]:
    async with holding(await prepared(cluster, cluster.rs0, f"{test_name}_coarse")) as held:
        yield held


@asynccontextmanager
async def holding(router: Router) -> AsyncIterator[Held]:
    async with AsyncExitStack() as stack:
        hold = await stack.enter_async_context(await configure_fail_point(router.node, "blockCollectionCacheLookup"))
        held = Held(router, stack, hold)
        try:
            yield held
        finally:
            await hold.off()
    await router.st.s.drop_database(router.database)


async def test_a_finer_router_holds_up_what_goes_to_the_stale_shard_alone(finer: Held) -> None:
    router = finer.router
    before = await router.refreshes()
    await finer.start(("find", STALE_REGION))
    await finer.entered()
    await finer.start(("find", SAME_SHARD), ("inc", SAME_SHARD))

    codes = {region: await router.probe(region) for region in REGIONS}
    found = [len((await router.find(region))["cursor"]["firstBatch"]) for region in BYSTANDERS]
    written = [(await router.inc(region))["nModified"] for region in BYSTANDERS]
    elsewhere = await router.find(1, "bystander")
    still_waiting = [one.done() for one in finer.waiting]
    replies = await finer.release()

    invalidated = dict.fromkeys((STALE_REGION, SAME_SHARD), ErrorCodes.ShardInvalidatedForTargeting)
    assert codes == {**dict.fromkeys(BYSTANDERS, 0), **invalidated}
    assert (found, written, len(elsewhere["cursor"]["firstBatch"])) == ([1, 1], [1, 1], 1)
    assert still_waiting == [False] * 3
    assert [(one["ok"], one.get("writeErrors")) for one in replies] == [(1, None)] * 3
    assert await incremented(router) == {-5: 1, 1: 1, 52: 0, 150: 1}
    after = await router.refreshes()
    rise = {name: after[name] - before[name] for name in COUNTED}
    # A write that is told 304 while the table is read has it read once more: on 6.0.27 always, on 6.0.5 now and then.
    assert rise.pop("countIncrementalRefreshesStarted") in (1, 2)
    assert rise == {"countStaleConfigErrors": 1, "countFullRefreshesStarted": 0, "countFailedRefreshes": 0}


async def test_a_coarse_router_holds_up_the_whole_collection(coarse: Held) -> None:
    """Without this the test above would prove nothing."""
    router = coarse.router
    await coarse.start(("find", STALE_REGION))
    await coarse.entered()
    await coarse.start(*(("inc", region) for region in BYSTANDERS))

    codes = [await router.probe(region) for region in BYSTANDERS]
    elsewhere = await router.find(1, "bystander")
    still_waiting = [one.done() for one in coarse.waiting]
    replies = await coarse.release()

    assert codes == [ErrorCodes.MaxTimeMSExpired] * 2
    assert len(elsewhere["cursor"]["firstBatch"]) == 1
    assert still_waiting == [False] * 3
    assert [(one["ok"], one.get("writeErrors")) for one in replies] == [(1, None)] * 3
    assert await incremented(router) == {-5: 1, 1: 0, 52: 0, 150: 1}


async def test_a_finer_router_is_stale_for_no_shard_once_it_has_refreshed(finer: Held) -> None:
    await finer.start(("find", STALE_REGION))
    await finer.entered()
    await finer.release()

    async def fresh() -> bool:
        return [await finer.router.probe(region) for region in REGIONS] == [0] * len(REGIONS)

    await assert_soon(fresh, "no shard is stale for the router any more")


async def incremented(router: Router) -> dict[int, int]:
    """Region -> how often its document was incremented, as the cluster's own router reads it."""
    return {one["region"]: one["n"] async for one in router.st.s[router.database].c.find()}
