"""What the conformance tests share: one command sent to three places, and answers made comparable.

The places are a sharded collection and an unsharded one behind the router, and a plain replica set, whose answer is
the measure. Knows nothing of what the commands mean; the tables of cases are in the test files.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection

DEADLINE: Final = 60.0
Document = dict[str, Any]

SHARDED: Final = "sharded"
UNSHARDED: Final = "unsharded"
REPLICA_SET: Final = "replica set"

_NOT_COMPARED: Final = frozenset(
    ("$clusterTime", "operationTime", "opTime", "electionId",
     "$gleStats", "lastCommittedOpTime", "$configTime", "$topologyTime", "readOnly")
)  # fmt: skip
"""Times and elections; those of the second line a shard server adds for other servers, and drivers ignore them."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Case:
    """A command on collection `orders`, and where a router's answer is not a replica set's.

    `sharded` and `routed`: the error code (0: success, whatever it says) that a mongos gives on the sharded
    collection alone, or on both. `sort`: results come in no certain order. `numbered`: also as a retryable write.
    """

    name: str
    command: Mapping[str, Any]
    sharded: int | None = None
    routed: int | None = None
    sort: bool = False
    database: str | None = None

    def expected_code(self, kind: str) -> int | None:
        return self.sharded if kind == SHARDED and self.sharded is not None else self.routed


@dataclass(frozen=True)
class Script:
    """Commands one after the other; DATABASE in one stands for the place's own. `undo` is run behind them.

    `sharded` and `routed` as of a Case, for the first command; then the others' answers are not compared. With `shape`
    only these fields are, and of them what kind of value they have.
    """

    name: str
    commands: Sequence[Mapping[str, Any]]
    undo: Sequence[Mapping[str, Any]] = ()
    sharded: int | None = None
    routed: int | None = None
    database: str | None = None
    shape: Sequence[str] = ()
    sort: bool = False

    def expected_code(self, kind: str) -> int | None:
        return self.sharded if kind == SHARDED and self.sharded is not None else self.routed


@dataclass
class Place:
    kind: str
    connection: Connection
    database: str
    _session: Document = field(default_factory=lambda: {"id": Binary(uuid.uuid4().bytes, 4)})

    async def run(self, command: Mapping[str, Any], *, database: str | None = None) -> Document:
        """The reply, whatever it says."""
        try:
            return await self.connection.command(database or self.database, copy.deepcopy(command), deadline=DEADLINE)
        except CommandFailed as error:
            return dict(error.reply)

    async def run_numbered(self, command: Mapping[str, Any]) -> Document:
        """As a retryable write."""
        return await self.run({**command, "lsid": self._session, "txnNumber": Int64(next(_numbers))})

    async def refill(self, documents: Sequence[Document]) -> None:
        """Make `orders` hold these, if it does not."""
        if await self.documents() != list(documents):
            concern = {"writeConcern": {"w": 1}}
            await self.run({"delete": "orders", "deletes": [{"q": {}, "limit": 0}], **concern})
            await self.run({"insert": "orders", "documents": list(documents), **concern})

    async def documents(self) -> list[Document]:
        reply = await self.run({"find": "orders", "sort": {"_id": 1}, "batchSize": 1000})
        found: list[Document] = reply["cursor"]["firstBatch"]
        return found


@asynccontextmanager
async def places(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    """The three, each with a database of its own; `orders` of the first is split at region 0."""
    assert sharded.router is not None
    name = f"conform_{uuid.uuid4().hex[:8]}"
    primary = await primary_of(replica_set, "rs0")
    made = {
        SHARDED: Place(SHARDED, await Connection.open(sharded.router, deadline=DEADLINE), f"{name}_s"),
        UNSHARDED: Place(UNSHARDED, await Connection.open(sharded.router, deadline=DEADLINE), f"{name}_u"),
        REPLICA_SET: Place(REPLICA_SET, await Connection.open(primary.host, deadline=DEADLINE), f"{name}_r"),
    }
    split = made[SHARDED]
    await split.connection.command("admin", {"enableSharding": split.database, "primaryShard": "shard0"})
    await spread(split, "orders")
    # Not on shard0, where the other database is: a router that sent everything there would go unnoticed.
    await split.connection.command("admin", {"enableSharding": made[UNSHARDED].database, "primaryShard": "shard1"})
    try:
        yield made
    finally:
        for place in made.values():
            await place.run({"dropDatabase": 1})
            place.connection.close()


async def spread(place: Place, collection: str) -> None:
    """Shard it by region, below 0 on shard0, from 0 on shard1. An empty collection: nothing is copied."""
    namespace = f"{place.database}.{collection}"
    admin = place.connection
    await admin.command("admin", {"shardCollection": namespace, "key": {"region": 1}})
    await admin.command("admin", {"moveRange": namespace, "min": {"region": 0}, "toShard": "shard1"})


async def compare(places: Mapping[str, Place], case: Case, kind: str, *, errors: str = "code") -> None:
    """Send the case to one place behind the router and, unless the case knows better, to the replica set."""
    answer = await places[kind].run(case.command, database=case.database)
    expected = case.expected_code(kind)
    if expected is not None:
        assert (0 if answer["ok"] == 1 else answer["code"]) == expected, answer
        return
    measure = await places[REPLICA_SET].run(case.command, database=case.database)
    differences = list(
        differing(
            comparable(answer, places[kind], sort=case.sort, errors=errors),
            comparable(measure, places[REPLICA_SET], sort=case.sort, errors=errors),
        )
    )
    assert not differences, (differences, answer.get("errmsg"), measure.get("errmsg"))


async def compare_script(places: Mapping[str, Place], script: Script, kind: str) -> None:
    """Each command's answer of a place behind the router and of the replica set."""
    answers, measures = [
        [await place.run(_on(place, one), database=script.database) for one in (*script.commands, *script.undo)]
        for place in (places[kind], places[REPLICA_SET])
    ]
    expected = script.expected_code(kind)
    if expected is not None:
        assert (0 if answers[0]["ok"] == 1 else answers[0]["code"]) == expected, answers[0]
        return
    for command, answer, measure in zip(script.commands, answers, measures, strict=False):
        found, wanted = (
            _shape(reply, script.shape) if script.shape else comparable(_of_all(reply), place, sort=script.sort)
            for reply, place in ((answer, places[kind]), (measure, places[REPLICA_SET]))
        )
        differences = list(differing(found, wanted))
        assert not differences, (command, differences, answer.get("errmsg"), measure.get("errmsg"))


def _on(place: Place, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("DATABASE", place.database)
    if isinstance(value, Mapping):
        return {name: _on(place, one) for name, one in value.items()}
    return [_on(place, one) for one in value] if isinstance(value, list) else value


def _of_all(reply: Document) -> Document:
    """Where a router shows each shard's own reply: that of the first, as the whole."""
    raw = reply.get("raw")
    if reply["ok"] != 1 or not isinstance(raw, Mapping):
        return reply
    return {**next(iter(raw.values())), **{name: value for name, value in reply.items() if name != "raw"}}


def _shape(reply: Document, fields: Sequence[str]) -> Document:
    kinds = {int: "number", Int64: "number", float: "number"}
    told = {name: kinds.get(type(reply[name]), type(reply[name]).__name__) for name in fields if name in reply}
    return {"ok": reply["ok"], "code": reply.get("code"), **told}


def differing(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Each place where the two differ, as a line."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for name in [*found, *(one for one in expected if one not in found)]:
            yield from differing(found.get(name, "nothing"), expected.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differing(one, other, f"{path}[{index}]")
    elif found != expected:
        yield f"{path}: {found!r}, expected {expected!r}"


def comparable(reply: Mapping[str, Any], place: Place, *, sort: bool = False, errors: str = "code") -> Any:
    """The reply without what differs from run to run and from cluster to cluster; errors by code and labels alone."""
    if reply.get("ok") != 1:
        kept = ["ok", "code", "codeName", "errorLabels", *(["errmsg"] if errors == "text" else [])]
        return _plain({name: reply[name] for name in kept if name in reply}, place)
    document = {name: value for name, value in reply.items() if name not in _NOT_COMPARED}
    if isinstance(cursor := document.get("cursor"), Mapping):
        cursor = {name: value for name, value in cursor.items() if name != "atClusterTime"}
        cursor["id"] = bool(cursor["id"])
        batch = "firstBatch" if "firstBatch" in cursor else "nextBatch"
        if sort:
            cursor[batch] = sorted(cursor[batch], key=repr)
        document["cursor"] = cursor
    if sort and isinstance(document.get("values"), list):
        document["values"] = sorted(document["values"], key=repr)
    return _plain(document, place)


def _plain(value: Any, place: Place) -> Any:
    """The database's own name out of every string; numbers by value, since a router counts in other widths."""
    if isinstance(value, str):
        return value.replace(place.database, "DATABASE")
    if isinstance(value, Mapping):
        return {name: _plain(one, place) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, place) for one in value]
    return value


def by_kind(*cases: Case | Script, kinds: Sequence[str] = (SHARDED, UNSHARDED)) -> pytest.MarkDecorator:
    """Each case twice: on the sharded collection and on the unsharded one. Once where neither matters."""
    return pytest.mark.parametrize(
        ("case", "kind"),
        [pytest.param(case, kind, id=f"{case.name}-{kind}") for case in cases for kind in kinds],
    )
