"""Numbered (retryable) writes and findAndModify: to the owning shard, with versions, again when it says stale.

The in-process router would abort the mongod over them, so the router targets them itself; before 6.0 there is none, and
all writes come this way. Knows no client.

A stale answer makes the whole of that part be sent again under the same statement ids: what ran already is answered
from config.transactions, which a migration carries along with the documents, and so applies once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from clusters.router.batch import Batch, Tally, take_apart, write_concern
from clusters.router.catalog import STALE, Catalog, Patience, Route, Table
from clusters.router.errors import RouterError
from clusters.router.members import NOT_PRIMARY, Members
from clusters.router.query_ranges import shards_of_query
from clusters.router.rewrite import failed, without
from clusters.router.targeting import delete_shards, find_and_modify_shard, insert_shard, update_shards
from clusters.wire.connection import ConnectionLost
from clusters.wire.message import Message, decode, encode_body, encode_document

SENDS: Final = 4
"""One and three retries after a lost connection or a stepped-down primary, as mongos does for numbered writes."""

NOT_PARSED: Final = frozenset((9, 14, 10334, 40413, 40414, 40415))
"""What a shard answers to a part it cannot read: a mongos reads the command itself, and fails it as a whole."""

_Part = tuple[tuple[str, ...], list[int]]
"""Shards, and the indices of the statements they get: one shard and many, or many shards and one."""
_Refused = list[tuple[int, RouterError]]
_T = TypeVar("_T")


class Writes:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog

    async def run(self, message: Message) -> dict[str, Any]:
        """The reply to a numbered insert, update or delete.

        A statement that a shard refuses is a write error, and so are those of a part whose shard cannot be reached or
        whose connection is lost for good, as on a mongos: whether such a one ran is not known.
        """
        batch = take_apart(message)
        tally = Tally(batch.kind, batch.ordered, len(batch.statements))
        left = list(range(len(batch.statements)))
        patience = Patience(batch.namespace)
        while left:
            route = await self._catalog.route(batch.database, batch.collection, create=batch.kind != "delete")
            if route is None:
                break  # no database, so nothing matches
            parts, refused = _parts(batch, left, route)
            if batch.ordered:
                stale_from = await self._in_order(batch, parts, refused, route, tally)
                stale = [index for index in left if index >= stale_from]
            else:
                stale = await self._at_once(batch, parts, refused, route, tally)
            if not stale:
                break
            left = stale
            self._catalog.forget(batch.namespace)
            await patience.wait()
        return tally.reply()

    async def find_and_modify(self, message: Message) -> Message:
        """The shard's own reply to a findAndModify, numbered or not."""
        command = message.document()
        name = message.command
        database_name, collection = command["$db"], command[name]
        namespace = f"{database_name}.{collection}"
        patience = Patience(namespace)
        while True:
            route = await self._catalog.route(database_name, collection, create=True)
            assert route is not None
            shard = route.database.primary if route.table is None else find_and_modify_shard(route.table, command)
            fields = {"writeConcern": write_concern(command), **route.versions(shard)}
            body = without(message.body, ("writeConcern", "$readPreference"), append=encode_document(fields))
            raw = encode_body(body, request_id=message.request_id)
            reply = await self._send(shard, raw, again="txnNumber" in command)
            if not (failed(reply.body) and decode(reply.body).get("code") in STALE):
                return reply
            self._catalog.forget(namespace)
            await patience.wait()

    async def _in_order(
        self, batch: Batch, parts: Sequence[_Part], refused: _Refused, route: Route, tally: Tally
    ) -> int:
        """Part after part until one fails. Gives the index to send again from: a stale part's, else past the end."""
        for part in parts:
            if not await self._part(batch, part, route, tally):
                return part[1][0]
            if tally.errors:
                return len(batch.statements)
        for index, why in refused:
            tally.refuse(index, why)
        return len(batch.statements)

    async def _at_once(
        self, batch: Batch, parts: Sequence[_Part], refused: _Refused, route: Route, tally: Tally
    ) -> list[int]:
        for index, why in refused:
            tally.refuse(index, why)
        done = await _all(self._part(batch, part, route, tally) for part in parts)
        return sorted(index for (_shards, rest), fine in zip(parts, done, strict=True) if not fine for index in rest)

    async def _part(self, batch: Batch, part: _Part, route: Route, tally: Tally) -> bool:
        """Send one part to its shards and count the answers; False, and nothing counted, where one is stale."""
        shards, indices = part
        replies = await _all(self._send_part(batch, indices, shard, route.versions(shard)) for shard in shards)
        for reply in replies:
            self._members.monitor.note_cluster_time(reply.get("$clusterTime"))
        for reply in replies:
            if reply.get("ok") != 1 and reply.get("code") in STALE:
                return False
            if reply.get("ok") != 1 and reply.get("code") in NOT_PARSED:
                raise RouterError(reply["code"], reply["codeName"], reply["errmsg"])
            if any(one.get("code") in STALE for one in reply.get("writeErrors", ())):
                return False
        answers = (_as_write_errors(batch, indices, reply) for reply in replies)
        tally.add(indices, dict(zip(shards, answers, strict=True)))
        return True

    async def _send_part(
        self, batch: Batch, indices: list[int], shard: str, versions: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            return decode((await self._send(shard, batch.part(indices, versions), again=batch.numbered)).body)
        except RouterError as error:
            why = f"Write results unavailable from shard {shard} :: caused by :: {error}"
            return {"ok": 0.0, "code": error.code, "errmsg": why}

    async def _send(self, shard: str, raw: bytes, *, again: bool) -> Message:
        """The reply of the shard's primary, whatever it says; sent again to the next primary if `again` allows it."""
        for last in (*([False] * (SENDS - 1) if again else ()), True):
            host = await self._members.primary_of(shard)
            try:
                reply = await self._members.internal.to(host).request(raw)
            except (ConnectionLost, TimeoutError) as error:
                self._members.monitor.note_failure(host)
                if last:
                    raise RouterError(
                        6, "HostUnreachable", f"{error}; the stand-in router cannot tell whether the write ran"
                    ) from error
                continue
            if last or _code(reply) not in NOT_PRIMARY:
                return reply
            self._members.monitor.note_failure(host)
        raise AssertionError("the last send returns or raises")


def _code(reply: Message) -> int | None:
    """The code a reply failed with, as a whole or only in its write concern: a mongos retries on either."""
    if reply.number(b"ok") != 1:
        return reply.number(b"code")
    if b"writeConcernError\x00" in reply.raw:
        error = decode(reply.body).get("writeConcernError")
        return error.get("code") if isinstance(error, Mapping) else None
    return None


async def _all(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All results, or the first error once all have ended: nothing is left running behind a failed write."""
    waiting = list(work)
    if len(waiting) == 1:  # mostly; it saves a task
        return [await waiting[0]]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return [one for one in results if not isinstance(one, BaseException)]


def _parts(batch: Batch, left: Sequence[int], route: Route) -> tuple[list[_Part], _Refused]:
    """What goes where: runs of the same shard if ordered, else one part a shard; a statement for all shards alone.

    And what goes nowhere, with the reason; ordered, that ends the list.
    """
    parts: list[_Part] = []
    refused: _Refused = []
    of_shard: dict[tuple[str, ...], list[int]] = {}
    for index in left:
        try:
            shards = (route.database.primary,) if route.table is None else _shards(batch, index, route.table)
        except RouterError as error:
            refused.append((index, error))
            if batch.ordered:
                break
            continue
        if len(shards) == 1 and batch.ordered and parts and parts[-1][0] == shards:
            parts[-1][1].append(index)
        elif len(shards) == 1 and not batch.ordered and shards in of_shard:
            of_shard[shards].append(index)
        else:
            indices = [index]
            parts.append((shards, indices))
            if len(shards) == 1:
                of_shard[shards] = indices
    return [(shards, run) for shards, indices in parts for run in batch.sized(indices)], refused


def _shards(batch: Batch, index: int, table: Table) -> tuple[str, ...]:
    statement = batch.statements[index]
    if batch.kind == "insert":
        return (insert_shard(table, statement),)
    fields = decode(statement)
    if _unreadable(batch.kind, fields):
        return table.shards[:1]  # whose own words the client gets
    if not batch.numbered and (fields.get("multi") or fields.get("limit") == 0):
        simple = not (fields.get("collation") or table.collation)
        return shards_of_query(table, fields["q"], simple=simple)
    return update_shards(table, fields) if batch.kind == "update" else delete_shards(table, fields)


def _unreadable(kind: str, statement: Mapping[str, Any]) -> bool:
    if not isinstance(statement.get("q"), Mapping):
        return True
    if kind == "delete":
        return statement.get("limit") not in (0, 1)
    return not isinstance(statement.get("u"), Mapping | list)


def _as_write_errors(batch: Batch, indices: Sequence[int], reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part that failed as a whole, as mongos reports it: each statement with that error, if ordered the first."""
    if reply.get("ok") == 1:
        return reply
    error = {"code": reply.get("code", 8), "errmsg": reply.get("errmsg", "")}
    failing = indices[:1] if batch.ordered else indices
    times = {name: reply[name] for name in ("operationTime", "$clusterTime") if name in reply}
    return {"n": 0, "writeErrors": [{**error, "index": place} for place in range(len(failing))], **times}
