"""A write command taken apart into statements, and the answers of several shards put together into one reply. Pure.

Statements stay bytes; what of them is needed to find the shard is decoded in `targeting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson.timestamp import Timestamp

from clusters.router.errors import RouterError
from clusters.router.rewrite import ARRAY, DOCUMENT, document_at, elements, without
from clusters.wire.message import (
    Message,
    decode,
    encode_body,
    encode_document,
    encode_sequence,
    next_request_id,
)

STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}

PART_BYTES: Final = 40_000_000
"""What one part may hold; a message ends at 48,000,000 and the part carries statement ids of its own."""

MOST_STATEMENTS: Final = 100_000
LARGEST_STATEMENT: Final = (16 << 20) + (16 << 10)
"""What a server holds for a document of its own making, the largest that can be read at all."""

WOULD_CHANGE_OWNING_SHARD: Final = 283
MOVES_DOCUMENT: Final = (
    "the stand-in router does not change a shard key value so that the document moves to another shard;"
    " delete the document and insert it anew, or use a mongos"
)

_OURS: Final = frozenset(
    ("ordered", "stmtId", "stmtIds", "writeConcern", "$readPreference", "documents", "updates", "deletes")
)


@dataclass(frozen=True, slots=True)
class Batch:
    """One insert, update or delete command. `common` are the fields that every part of it carries."""

    kind: str
    database: str
    collection: str
    statements: Sequence[bytes]
    statement_ids: Sequence[int]
    ordered: bool
    numbered: bool
    common: Mapping[str, Any]

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    def part(self, indices: Sequence[int], versions: Mapping[str, Any]) -> bytes:
        """The OP_MSG with some of the statements, under their own statement ids."""
        body: dict[str, Any] = {self.kind: self.collection, **self.common, "ordered": self.ordered, **versions}
        if self.numbered:
            body["stmtIds"] = [self.statement_ids[index] for index in indices]
        tail = encode_sequence(STATEMENTS[self.kind], [self.statements[index] for index in indices])
        return encode_body(encode_document(body), request_id=next_request_id(), tail=tail)

    def sized(self, indices: Sequence[int]) -> Iterator[list[int]]:
        """The indices in runs that fit into one message."""
        run: list[int] = []
        size = 0
        for index in indices:
            length = len(self.statements[index])
            if run and size + length > PART_BYTES:
                yield run
                run, size = [], 0
            run.append(index)
            size += length
        if run:
            yield run


def write_concern(command: Mapping[str, Any]) -> dict[str, Any]:
    """The write concern to say to a shard, which applies no default to a fellow server: majority, as since 5.0."""
    return {"w": "majority", **command.get("writeConcern", {})}


def take_apart(message: Message) -> Batch:
    """The batch in a message. Raises RouterError, as a server does, where there is no list of statements to be had."""
    kind = message.command
    field_name = STATEMENTS[kind]
    statements: list[bytes] | None = None
    body = message.body
    if field_name.encode() in message.fields:
        (listed,) = (one for one in elements(body) if one.name == field_name)
        if listed.kind != ARRAY:
            raise _wrong_type(f"{kind}.{field_name}", "an array")
        members = list(elements(body, listed.value))
        for one in members:
            if one.kind != DOCUMENT:
                raise _wrong_type(f"{kind}.{field_name}.{one.name}", "an object")
        statements = [document_at(body, one) for one in members]
        body = without(body, (field_name,))
    for identifier, documents in message.sequences():
        if identifier != field_name:
            raise RouterError(40415, "Location40415", f"BSON field '{kind}.{identifier}' is an unknown field.")
        if statements is not None:
            why = f"Duplicate field between body and document sequence {field_name}"
            raise RouterError(40433, "Location40433", why)
        statements = documents
    if statements is None:
        why = f"BSON field '{kind}.{field_name}' is missing but a required field"
        raise RouterError(40414, "Location40414", why)
    head = decode(body)
    if not isinstance(head[kind], str):
        raise RouterError(2, "BadValue", f"collection name has invalid type {type(head[kind]).__name__}")
    if not head[kind]:
        raise RouterError(73, "InvalidNamespace", f"Invalid namespace specified '{head['$db']}.'")
    if not isinstance(head.get("ordered", True), bool):
        raise _wrong_type(f"{kind}.ordered", "a bool")
    first = int(head.get("stmtId", 0))
    statement_ids = head.get("stmtIds") or range(first, first + len(statements))
    _check_sizes(statements, statement_ids)
    return Batch(
        kind=kind,
        database=head["$db"],
        collection=head[kind],
        statements=statements,
        statement_ids=statement_ids,
        ordered=head.get("ordered", True),
        numbered="txnNumber" in head,
        common={
            **{name: value for name, value in head.items() if name not in _OURS and name != kind},
            "writeConcern": write_concern(head),
        },
    )


def _check_sizes(statements: Sequence[bytes], statement_ids: Sequence[int]) -> None:
    count = len(statements)
    if not 1 <= count <= MOST_STATEMENTS:
        why = f"Write batch sizes must be between 1 and {MOST_STATEMENTS}. Got {count} operations."
        raise RouterError(16, "InvalidLength", why)
    if len(statement_ids) != count:
        why = f"Number of statement ids must match the number of batch entries. Got {len(statement_ids)} statement ids"
        raise RouterError(16, "InvalidLength", f"{why} but {count} operations.")
    for one in statements:
        if len(one) > LARGEST_STATEMENT:
            why = f"BSONObj size: {len(one)} is invalid. Size must be between 0 and {LARGEST_STATEMENT}(16MB)"
            raise RouterError(10334, "BSONObjectTooLarge", why)


def _wrong_type(field_name: str, expected: str) -> RouterError:
    return RouterError(14, "TypeMismatch", f"BSON field '{field_name}' is the wrong type, expected {expected}")


@dataclass(slots=True)
class Tally:
    """The reply as it grows: to so many statements, in order or not."""

    kind: str
    ordered: bool = True
    statements: int = 1
    n: int = 0
    modified: int = 0
    upserted: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    concern_errors: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    times: Times = field(default_factory=lambda: Times())

    def add(self, indices: Sequence[int], replies: Mapping[str, Mapping[str, Any]]) -> None:
        """A shard's reply to one part, or several shards' to the one statement whose document lies somewhere."""
        total = sum(int(one.get("n", 0)) for one in replies.values())
        modified = sum(int(one.get("nModified", 0)) for one in replies.values())
        if len(replies) > 1 and any(one.get("retriedStmtIds") for one in replies.values()):
            # A document that moved took the record of the write with it: two shards answer for one write.
            total, modified = min(total, 1), min(modified, 1)
        self.n += total
        self.modified += modified
        for shard, reply in replies.items():
            self.times.note(reply)
            self.upserted += [{**one, "index": indices[one["index"]]} for one in reply.get("upserted", ())]
            if not (len(replies) > 1 and self.errors and self.errors[-1]["index"] == indices[0]):
                self.errors += [_told(one, indices) for one in reply.get("writeErrors", ())]
            self.retried += reply.get("retriedStmtIds", ())
            if reply.get("writeConcernError"):
                self.concern_errors.append((shard, reply["writeConcernError"]))

    def refuse(self, index: int, error: RouterError) -> None:
        """A statement that was not sent."""
        self.errors.append({"index": index, "code": error.code, "errmsg": str(error)})

    def reply(self) -> dict[str, Any]:
        """As mongos has it: indices are the client's; a write concern error is told where something was written."""
        document: dict[str, Any] = {"n": self.n}
        if self.kind == "update":
            document["nModified"] = self.modified
        if self.upserted:
            document["upserted"] = sorted(self.upserted, key=lambda one: one["index"])
        if self.errors:
            document["writeErrors"] = sorted(self.errors, key=lambda one: one["index"])
        if self.concern_errors and (not self.errors or (not self.ordered and len(self.errors) < self.statements)):
            document["writeConcernError"] = _one_of(self.concern_errors)
        if self.retried:
            document["retriedStmtIds"] = sorted(self.retried)
        document["ok"] = 1.0
        return {**document, **self.times.fields()}


def _one_of(errors: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """One write concern error that stands for those of several shards."""
    _shard, first = errors[0]
    if len(errors) == 1:
        return first
    told = (f"{one.get('codeName')}: {one.get('errmsg')} at {shard}" for shard, one in errors)
    message = "multiple errors reported : " + " :: and :: ".join(told)
    return {"code": first["code"], "codeName": first.get("codeName"), "errmsg": message}


def _told(error: Mapping[str, Any], indices: Sequence[int]) -> dict[str, Any]:
    told = {**error, "index": indices[error["index"]]}
    if error.get("code") == WOULD_CHANGE_OWNING_SHARD:
        told["errmsg"] = MOVES_DOCUMENT
    return told


@dataclass(slots=True)
class Times:
    """The highest operationTime and $clusterTime of several replies: what a causal session goes on with."""

    operation: Timestamp | None = None
    cluster: Mapping[str, Any] | None = None

    def note(self, reply: Mapping[str, Any]) -> None:
        time = reply.get("operationTime")
        if time is not None and (self.operation is None or time > self.operation):
            self.operation = time
        cluster = reply.get("$clusterTime")
        if cluster is not None and (self.cluster is None or cluster["clusterTime"] > self.cluster["clusterTime"]):
            self.cluster = cluster

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.operation is not None:
            found["operationTime"] = self.operation
        if self.cluster is not None:
            found["$clusterTime"] = self.cluster
        return found
