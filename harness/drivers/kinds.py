"""Kinds of writes: what each sends for one execution of a logical write, and what is left of so many of them.

Every command carries `comment: {run, write, execution}` and every document `write` and `execution`, so that each is
known by what it belongs to. It knows both drivers, and nothing of records, retries and faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pymongo import InsertOne, WriteConcern

QTY: Final = 5
"""What one execution adds to `qty`, where its kind adds."""
BULK: Final = 3
"""Documents that one execution of a bulk inserts: all in one command."""
MANY: Final = 10
"""Documents of a logical write that an update-many or a delete-many is aimed at."""

Acknowledged = Literal["majority", 1]
Effect: TypeAlias = dict[str, int]
"""`matched, modified, inserted, upserted, deleted`, as the driver tells it."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`session` is an explicit one of the same client. `max_time_ms`: only of a kind that takes it."""

    run: str
    write_concern: Acknowledged = "majority"
    session: Any = None
    max_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """What the documents of one logical write come to.

    `qty` is their sum, None where the kind keeps none. `executions` are all that the documents name, sorted, each as
    often as it is named. `last` is the one execution that all of them say was the last, None where they differ.
    """

    documents: int
    qty: int | None = None
    executions: tuple[int, ...] = ()
    last: int | None = None


Send: TypeAlias = Callable[[Any, str, int, Mapping[str, Any]], Awaitable[Effect | None]]
"""Awaits the driver's call, given collection, write, execution and keywords; returns the effect, None where nobody
tells it. Raises what the driver raises."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of write. `command` is its name on the wire.

    `retryable_by_the_driver`: sent with a txnNumber, and once more after a network error (driver specification
    "Retryable Writes": single-document writes that are acknowledged). `idempotent`: after any number of executions the
    collection is as after one, but for the `execution` that the documents name. `takes_max_time`: the driver has an
    argument for it; pymongo and motor have one for findAndModify alone, other writes get a maxTimeMS only from
    timeoutMS, which is another thing. `drawn_id`: the driver draws the `_id`, anew for each execution. `prepared`:
    documents of the write that must be there before. `upserts`: one document by its `_id`, which may be there before.
    """

    name: str
    command: str
    retryable_by_the_driver: bool
    idempotent: bool
    send: Send
    leaves: Callable[[Sequence[int]], Left]
    takes_max_time: bool = False
    acknowledged: bool = True
    drawn_id: bool = False
    prepared: int = 0
    upserts: bool = False

    async def execute(self, collection: Any, write: str, execution: int, options: WriteOptions) -> Effect | None:
        """One execution, by either driver. Raises PyMongoError; ValueError on options that the kind does not take."""
        self.check(session=options.session is not None, max_time=options.max_time_ms is not None)
        keywords: dict[str, Any] = {"comment": {"run": options.run, "write": write, "execution": execution}}
        if options.session is not None:
            keywords["session"] = options.session
        if options.max_time_ms is not None:
            keywords["maxTimeMS"] = options.max_time_ms
        concern = WriteConcern(w=options.write_concern if self.acknowledged else 0)
        return await self.send(collection.with_options(write_concern=concern), write, execution, keywords)

    def check(self, *, session: bool, max_time: bool) -> None:
        """Raises ValueError: what the driver has no argument for is not left out in silence."""
        if max_time and not self.takes_max_time:
            raise ValueError(f"write {self.name}: the driver has no maxTimeMS for it; only find-and-modify takes one")
        if session and not self.acknowledged:
            raise ValueError(f"write {self.name}: the driver refuses an explicit session without acknowledgement")

    def preparation(self, write: str, *, there: bool = False) -> list[dict[str, Any]]:
        """Documents to be there before the first execution; `there`: also the one that it would else make."""
        if there and self.upserts:
            return [{"_id": write, "write": write, "execution": None}]
        return [
            {"write": write, "execution": None, "part": part, "qty": 0, "executions": []}
            for part in range(self.prepared)
        ]

    def expected(self, effective: Sequence[int]) -> Left:
        """What is left when these executions took effect, in this order; one stands there as often as it did."""
        return self.leaves(effective)

    def held(self, documents: Iterable[Mapping[str, Any]]) -> Left:
        """What is left by the documents that there are of one logical write: to be held against `expected`.

        One that was there before, and that no execution has changed, is none of them.
        """
        found = [one for one in documents if self.prepared or one["execution"] is not None]
        counted = self.expected(()).qty is not None
        named = [one for document in found for one in document.get("executions", [document["execution"]])]
        return Left(
            documents=len(found),
            qty=sum(document.get("qty", 0) for document in found) if counted else None,
            executions=tuple(sorted(one for one in named if one is not None)),
            last=_only(document["execution"] for document in found),
        )


def kind(name: str) -> Kind:
    """Raises ValueError with one line."""
    if name not in KINDS:
        raise ValueError(f"write {name!r}: expected one of {', '.join(KINDS)}")
    return KINDS[name]


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as the history has it: what it is known by, and what is counted."""
    return {name: document[name] for name in ("write", "execution", "qty", "executions", "part") if name in document}


def effect_of_bulk(details: Mapping[str, Any]) -> Effect:
    """Of what pymongo tells of a bulk, whole or in part (`BulkWriteError.details`)."""
    names = ("nMatched", "nModified", "nInserted", "nUpserted", "nRemoved")
    return _effect(*(details.get(name, 0) for name in names))


def _effect(matched: int = 0, modified: int = 0, inserted: int = 0, upserted: int = 0, deleted: int = 0) -> Effect:
    return {
        "matched": matched,
        "modified": modified,
        "inserted": inserted,
        "upserted": upserted,
        "deleted": deleted,
    }


def _only(executions: Iterable[int | None]) -> int | None:
    found = set(executions)
    return found.pop() if len(found) == 1 else None


async def _insert(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect | None:
    result = await collection.insert_one({"write": write, "execution": execution}, **keywords)
    return _effect(inserted=1) if result.acknowledged else None


async def _insert_business_id(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    await collection.insert_one({"_id": write, "write": write, "execution": execution}, **keywords)
    return _effect(inserted=1)


async def _set(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    update = {"$set": {"write": write, "execution": execution}}
    return _updated(await collection.update_one({"_id": write}, update, upsert=True, **keywords))


async def _inc(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    return _updated(await collection.update_one({"_id": write}, _adding(write, execution), upsert=True, **keywords))


async def _replace(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    document = {"write": write, "execution": execution}
    return _updated(await collection.replace_one({"_id": write}, document, upsert=True, **keywords))


async def _find_and_modify(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    adding = _adding(write, execution)
    before = await collection.find_one_and_update({"_id": write}, adding, upsert=True, **keywords)
    return _effect(upserted=1) if before is None else _effect(matched=1, modified=1)


def _bulk(*, ordered: bool) -> Send:
    async def send(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
        inserts = [InsertOne({"write": write, "execution": execution, "part": part}) for part in range(BULK)]
        result = await collection.bulk_write(inserts, ordered=ordered, **keywords)
        return effect_of_bulk(result.bulk_api_result)

    return send


async def _update_many(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    return _updated(await collection.update_many({"write": write}, _adding(write, execution), **keywords))


async def _delete_many(collection: Any, write: str, execution: int, keywords: Mapping[str, Any]) -> Effect:
    result = await collection.delete_many({"write": write}, **keywords)
    return _effect(deleted=result.deleted_count)


def _adding(write: str, execution: int) -> dict[str, Any]:
    # Which executions took effect stands in the document: a sum alone would not tell.
    return {
        "$inc": {"qty": QTY},
        "$set": {"write": write, "execution": execution},
        "$push": {"executions": execution},
    }


def _updated(result: Any) -> Effect:
    return _effect(result.matched_count, result.modified_count, upserted=int(result.upserted_id is not None))


def _inserted(each: int) -> Callable[[Sequence[int]], Left]:
    return lambda effective: Left(each * len(effective), None, tuple(sorted([*effective] * each)), _only(effective))


def _kept_first(effective: Sequence[int]) -> Left:
    return Left(1, None, (effective[0],), effective[0]) if effective else Left(0)


def _kept_last(effective: Sequence[int]) -> Left:
    return Left(1, None, (effective[-1],), effective[-1]) if effective else Left(0)


def _added(effective: Sequence[int]) -> Left:
    if not effective:
        return Left(0, 0)
    return Left(1, QTY * len(effective), tuple(sorted(effective)), effective[-1])


def _added_to_many(effective: Sequence[int]) -> Left:
    last = effective[-1] if effective else None
    return Left(MANY, QTY * MANY * len(effective), tuple(sorted([*effective] * MANY)), last)


def _deleted(effective: Sequence[int]) -> Left:
    return Left(0) if effective else Left(MANY)


KINDS: Final[Mapping[str, Kind]] = {
    one.name: one
    for one in (
        Kind("insert", "insert", True, False, _insert, _inserted(1), drawn_id=True),
        Kind("insert-business-id", "insert", True, True, _insert_business_id, _kept_first),
        Kind("set", "update", True, True, _set, _kept_last, upserts=True),
        Kind("inc", "update", True, False, _inc, _added, upserts=True),
        Kind("replace-upsert", "update", True, True, _replace, _kept_last, upserts=True),
        Kind(
            "find-and-modify", "findAndModify", True, False, _find_and_modify, _added, takes_max_time=True, upserts=True
        ),
        Kind("bulk-ordered", "insert", True, False, _bulk(ordered=True), _inserted(BULK), drawn_id=True),
        Kind("bulk-unordered", "insert", True, False, _bulk(ordered=False), _inserted(BULK), drawn_id=True),
        Kind("update-many", "update", False, False, _update_many, _added_to_many, prepared=MANY),
        Kind("delete-many", "delete", False, True, _delete_many, _deleted, prepared=MANY),
        Kind("w0", "insert", False, False, _insert, _inserted(1), acknowledged=False, drawn_id=True),
    )
}
"""By name. The name of the record is the business's id, and the `_id` of the kinds that write one document and leave it
not to the driver: a sharded collection of these has `_id` for its shard key."""
