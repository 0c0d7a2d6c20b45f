"""Load on a cluster while parts of it are killed: a paced writer, streams, and probes that keep every error they meet.

What a probe is told must be what a mongos would say, and what it is not told must be so all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.errors import AutoReconnect, PyMongoError
from pymongo.write_concern import WriteConcern

from clusters.local import LocalCluster
from clusters.ready import migrated
from harness.checkers import Context, fold
from harness.checkers.delivery import examine
from harness.drivers.errors import error_fields
from harness.drivers.streams import StreamPlan, Streams
from harness.drivers.writers import Document
from observed import Observed, streaming

OP_DEADLINE = 90.0
"""Seconds for one operation, its retries included: 15 to find a primary, four times over, and a loaded machine."""
CATCH_UP = 60.0

DOCUMENTS = [Document(f"{shard}-{n}", shard, {"_id": f"{shard}-{n}", "region": region})
             for shard, region in (("shard0", -1), ("shard1", 1)) for n in range(3)]  # fmt: skip


@dataclass(frozen=True)
class Told:
    """An error as a client sees it; code None where the connection broke."""

    op: str
    code: int | None
    labels: tuple[str, ...]
    text: str


@dataclass
class Load:
    """`acknowledged` and `unknown` count the numbered increments by document; `inserted` are acknowledged `_id`s."""

    cluster: LocalCluster
    observed: Observed
    client: AsyncMongoClient[dict[str, Any]]
    once: AsyncMongoClient[dict[str, Any]]
    """Without retryable writes."""
    told: list[Told] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    inserted: list[str] = field(default_factory=list)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def collection(self, client: AsyncMongoClient[dict[str, Any]]) -> Any:
        database, _, name = self.observed.namespace.partition(".")
        return client[database].get_collection(name, write_concern=WriteConcern("majority"))

    async def probe(self, op: str, work: Callable[[], Awaitable[None]]) -> None:
        """Again and again until the end of the load; an error of the driver's is kept, anything else fails the test."""
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(OP_DEADLINE):
                    await work()
                self.done[op] = self.done.get(op, 0) + 1
            except PyMongoError as error:
                self.note(op, error)
            except TimeoutError:
                raise AssertionError(f"{op} had no answer within {OP_DEADLINE:g} s") from None
            await asyncio.sleep(0.02)  # the pace of the load

    def note(self, op: str, error: PyMongoError) -> None:
        found = error_fields(error)
        if found["code"] is None:
            assert isinstance(error, AutoReconnect), found["error"]
        self.told.append(Told(op, found["code"], tuple(found["labels"]), found["error"]))

    async def increment(self, document: Document) -> None:
        self.unknown[document.key] = self.unknown.get(document.key, 0) + 1
        after = await self.collection(self.client).find_one_and_update(
            document.filter, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER
        )
        assert after is not None
        self.unknown[document.key] -= 1
        self.acknowledged[document.key] = self.acknowledged.get(document.key, 0) + 1

    async def read(self) -> None:
        found = await self.collection(self.client).find({"seq": {"$exists": True}}).sort("_id").to_list()
        assert [one["_id"] for one in found] == sorted(one.key for one in DOCUMENTS)

    async def insert_once(self) -> None:
        identity = uuid.uuid4().hex
        await self.collection(self.once).insert_one({"_id": identity, "region": int(identity[:4], 16) - 0x8000})
        self.inserted.append(identity)

    async def moving(self, what: str, since: dict[str, int] | None = None) -> None:
        """Until every probe, writer and stream has got on a bit."""
        before = dict(since or self.progress())

        def moved() -> bool:
            now = self.progress()
            return all(now.get(name, 0) >= before.get(name, 0) + 3 for name in ("read", "increment", "insert", "write"))

        await self.until(moved, f"everything gets on {what}")

    def progress(self) -> dict[str, int]:
        return {**self.done, "write": len(self.observed.of("write.ok"))}

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(CATCH_UP):
                while not condition():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not within {CATCH_UP:g} s: {what}; {self.progress()}, {self.told[-5:]}") from None

    def caught_up(self, streams: Streams) -> bool:
        last = {one["key"]: one["seq"] for one in self.observed.of("write.ok")}
        seen = {(one["stream"], one["key"]): one["seq"] for one in self.observed.of("stream.event") if one["seq"]}
        return all(seen.get((name, key), 0) >= seq for name in streams.consumers for key, seq in last.items())

    def stop(self) -> None:
        self._stopping.set()

    async def settle(self) -> None:
        """No acknowledged write lost, none applied twice."""
        for key in {one.key for one in DOCUMENTS}:
            found = await self.collection(self.client).find_one({"_id": key})
            count = self.acknowledged.get(key, 0)
            assert count <= found.get("n", 0) <= count + self.unknown.get(key, 0), (key, found)
            last = max((one["seq"] for one in self.observed.of("write.ok", key=key)), default=0)
            assert found["seq"] >= last, (key, found, last)
        there = await self.collection(self.client).count_documents({"_id": {"$in": self.inserted}})
        assert there == len(self.inserted)


@asynccontextmanager
async def load(cluster: LocalCluster, path: Path) -> AsyncIterator[Load]:
    """Load on both shards for the length of the block; at its end everything is checked but the errors."""
    name = f"kills_{uuid.uuid4().hex[:8]}"
    observed = Observed(cluster, f"{name}.orders", path / "history.jsonl", DOCUMENTS)
    async with (
        cluster.client() as client,
        cluster.client(retryWrites=False) as once,
        contextlib.AsyncExitStack() as stack,
    ):
        stack.callback(observed.recorder.close)
        await client.admin.command("enableSharding", name, primaryShard="shard0")
        await client.admin.command("shardCollection", f"{name}.orders", key={"region": 1})
        await migrated(client, {"moveRange": f"{name}.orders", "min": {"region": 0}, "toShard": "shard1"})
        one = Load(cluster, observed, client, once)
        await one.collection(client).insert_many([{**each.filter, "seq": 0} for each in DOCUMENTS])
        updates = observed.plan(2)
        defaults = _Defaults(**{**asdict(updates), "full_document": "default", "read_preference": "secondary"})
        writer = observed.writer(rate=30)
        work = {"read": one.read, "insert": one.insert_once}
        work |= {"increment": lambda: one.increment(DOCUMENTS[0]), "increment ": lambda: one.increment(DOCUMENTS[-1])}
        try:
            async with streaming(observed, updates) as first, streaming(observed, defaults) as second:
                await writer.start()
                async with asyncio.TaskGroup() as probes:
                    for op, each in work.items():
                        probes.create_task(one.probe(op, each))
                    try:
                        await one.moving("before anything is killed")
                        yield one
                        await one.moving("after all that was killed")
                    finally:
                        one.stop()
                await writer.stop(deadline=OP_DEADLINE)
                await one.until(lambda: one.caught_up(first) and one.caught_up(second), "every stream has every write")
                observed.recorder.record("phase", "test", name="check")
            finding = examine(fold(observed.history), Context())
            assert finding.valid is True, finding.evidence
            await one.settle()
        finally:
            await writer.stop()
            await client.drop_database(name)


class _Defaults(StreamPlan):
    """Streams beside the others, so of other names."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"d{number}" for number in range(1, self.count + 1))
