"""Executions of logical writes against a server that holds them, and what sources and checkers then say of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from clusters import admin
from clusters.local import LocalCluster
from clusters.member import LocalMember
from clusters.topology import ROUTER
from harness.checkers import counts, effects, overlap
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.finding import Finding
from harness.drivers.clients import Client
from harness.drivers.errors import error_fields
from harness.history import COMPLETED
from harness.watchers.copies import Copies
from harness.watchers.exact import Counted, ExactSources
from harness.watchers.sends import SendListener
from harness.watchers.watched import WatchedMember
from observed import Observed

WRITE = "t/0/0"
SOCKET_TIMEOUT_MS = 300
SETTLED = 30.0
"""Seconds in which what was held has run to its end, on the busiest machine."""

Send = Callable[[Any, int, dict[str, Any]], Awaitable[Any]]
"""One execution: given the collection, its number and the comment."""


class Overlapping(Observed):
    """A collection of its own, clients that give up soon, and the history of what they do."""

    def __init__(self, cluster: LocalCluster, namespace: str, path: Path) -> None:
        super().__init__(cluster, namespace, path, [])
        self.client: AsyncMongoClient[dict[str, Any]] = self.open()
        self.database, _, self.name = namespace.partition(".")

    def open(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        """As the application's driver: it tells of its sends."""
        options = {"socketTimeoutMS": SOCKET_TIMEOUT_MS, **options}
        return self.cluster.client(event_listeners=[SendListener(self.recorder, self.run)], **options)

    def comment(self, write: str, execution: int) -> dict[str, Any]:
        return {"run": self.run, "write": write, "execution": execution}

    def conditions(self, point: str) -> dict[str, Any]:
        """That the fail point strikes this collection alone, where it can be told so."""
        return {"nss": self.namespace} if point.startswith("hangDuring") else {}

    async def execute(
        self, write: str, executions: int, send: Send, client: Client | None = None, *, acknowledged: bool = True
    ) -> None:
        """One after the other, each whatever the one before came to; as a consumer records them."""
        collection = (client or self.client)[self.database][self.name]
        for number in range(1, executions + 1):
            common = {"write": write, "execution": number}
            self.recorder.record("execution.begun", "test", **common, consumer="c1")
            said: dict[str, Any] = {"error": None, "code": None, "code_name": None, "labels": []}
            outcome, effect, start = "ok", None, time.monotonic()
            try:
                await send(collection, number, self.comment(write, number))
                effect = {"told": 1} if acknowledged else None
            except PyMongoError as error:
                outcome, said = "unknown", error_fields(error)
            self.recorder.record(
                "execution.ended", "test",
                **common, **said, outcome=outcome, seconds=time.monotonic() - start, effect=effect,
            )  # fmt: skip

    def findings(self, kind: str, **parameters: Any) -> dict[str, Finding]:
        """What the checkers say of all this, as at the end of a run that had these parameters."""
        self.recorder.record("run.ended", "test", reason=COMPLETED)
        digest, context = fold(self.history), Context(write=kind, **parameters)
        found = [checker.examine(digest, context) for checker in (overlap, counts, effects)]
        return {one.name: one for one in found if one is not None}

    async def left(self) -> None:
        """Write down what the collection holds."""
        async with self.cluster.client() as client:
            documents = await client[self.database][self.name].find({}, {"_id": 0}).to_list()
        self.recorder.record("effects", "test", documents=documents)


@asynccontextmanager
async def overlapping(cluster: LocalCluster, path: Path) -> AsyncIterator[Overlapping]:
    one = Overlapping(cluster, f"overlap.{path.name}", path / "history.jsonl")
    async with cluster.client() as client:
        await client.overlap.create_collection(path.name)
        try:
            yield one
        finally:
            await one.client.close()
            one.recorder.close()
            await client.overlap.drop_collection(path.name)


@asynccontextmanager
async def held(members: Sequence[LocalMember], point: str, **data: Any) -> AsyncIterator[None]:
    """At a fail point of these members, and let go of at the end."""
    connections = [await admin.connect(one.host, deadline=10) for one in members]
    try:
        for connection in connections:
            await connection.command("admin", {"configureFailPoint": point, "mode": "alwaysOn", "data": data})
        yield
    finally:
        for connection in connections:
            await connection.command("admin", {"configureFailPoint": point, "mode": "off"})
            connection.close()


def watched(cluster: LocalCluster) -> list[WatchedMember]:
    return [WatchedMember.of(one) for one in cluster.members.values()]


@asynccontextmanager
async def sampling(observed: Overlapping, **options: Any) -> AsyncIterator[Copies]:
    """The live sampler, which ends soon whatever state the members are in."""
    copies = Copies(observed.recorder, watched(observed.cluster), observed.run, every=0.05, **options)
    task = asyncio.create_task(copies.watch())
    try:
        yield copies
    finally:
        start = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        await copies.close()
        assert time.monotonic() - start < 1.0


@asynccontextmanager
async def counting(observed: Overlapping, *, fail_points: Sequence[str] = ()) -> AsyncIterator[ExactSources]:
    """The exact sources from here to the end, which comes when nothing of the run is inside any member any more."""
    cluster = observed.cluster
    names = {one.name: one.log_lines for one in cluster.members.values()}
    members = [Counted(one, names[one.name], fail_points) for one in watched(cluster) if one.holds_data]
    entrances = [one.member.name for one in members]
    if cluster.router is not None:
        entrances = [ROUTER.name]
        members.append(Counted(WatchedMember(ROUTER.name, cluster.router, ROUTER.role, ROUTER.name)))
    control = cluster.proxy.host if cluster.proxy is not None else None
    sources = ExactSources(observed.recorder, members, observed.run, control=control, entrances=entrances)
    await sources.begin()
    try:
        yield sources
        await settled(observed)
    finally:
        await sources.end()


async def settled(observed: Overlapping) -> None:
    """Until no member has an op of the run."""
    match = {"$match": {"command.comment.run": observed.run, "command.comment.write": {"$exists": True}}}
    pipeline = [{"$currentOp": {"allUsers": True}}, match, {"$limit": 1}]

    async def empty() -> bool:
        for member in observed.cluster.members.values():
            async with admin.connected(member.host) as connection:
                ask = {"aggregate": 1, "pipeline": pipeline, "cursor": {}, "$readPreference": {"mode": "nearest"}}
                if (await connection.command("admin", ask))["cursor"]["firstBatch"]:
                    return False
        return True

    await admin.until("nothing of the run is inside any member", empty, deadline=SETTLED)


async def insert(collection: Any, number: int, comment: dict[str, Any]) -> Any:
    return await collection.insert_one({"write": WRITE, "execution": number}, comment=comment)


async def increment(collection: Any, _number: int, comment: dict[str, Any]) -> Any:
    return await collection.update_one({"_id": WRITE}, {"$inc": {"qty": 5}}, upsert=True, comment=comment)


async def increment_all(collection: Any, _number: int, comment: dict[str, Any]) -> Any:
    return await collection.update_many({}, {"$inc": {"qty": 5}}, comment=comment)


async def find_and_modify(collection: Any, _number: int, comment: dict[str, Any]) -> Any:
    return await collection.find_one_and_update({"_id": WRITE}, {"$inc": {"qty": 5}}, upsert=True, comment=comment)


HELD: Final[Sequence[tuple[str, str, Send]]] = (
    ("insert", "hangDuringBatchInsert", insert),
    ("inc", "hangDuringBatchUpdate", increment),
    ("find-and-modify", "hangBeforeFindAndModifyPerformsUpdate", find_and_modify),
)
"""Kinds of writes, and where each is held inside the engine."""
