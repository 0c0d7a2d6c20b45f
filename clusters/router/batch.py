"""A write command taken apart into statements, and the answers of several shards put together into one reply. Pure.

Statements stay bytes; what of them is needed to find the shard is decoded in `targeting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson.timestamp import Timestamp

from clusters.router.errors import RouterError
from clusters.router.rewrite import array_documents, elements, without
from clusters.wire.message import Message, decode, encode_body, encode_document, encode_sequence, next_request_id

STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}

PART_BYTES: Final = 40_000_000
"""What one part may hold; a message ends at 48,000,000 and the part carries statement ids of its own."""

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
        """The OP_MSG for one shard: these statements, under their own statement ids."""
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
    """The batch in a message. Raises RouterError where its statements are missing or given twice."""
    kind = message.command
    field_name = STATEMENTS[kind]
    statements: list[bytes] | None = None
    body = message.body
    if field_name.encode() in message.fields:
        (statements,) = (array_documents(body, one) for one in elements(body) if one.name == field_name)
        body = without(body, (field_name,))
    for identifier, documents in message.sequences():
        if identifier != field_name or statements is not None:
            raise RouterError(9, "FailedToParse", f"{kind} takes one list of {field_name}, found {identifier!r} too")
        statements = documents
    if not statements:
        raise RouterError(9, "FailedToParse", f"{kind} needs at least one of {field_name}, found none")
    head = decode(body)
    numbered = "txnNumber" in head
    first = int(head.get("stmtId", 0))
    statement_ids = head.get("stmtIds") or range(first, first + len(statements))
    if len(statement_ids) != len(statements):
        raise RouterError(2, "BadValue", f"expected {len(statements)} stmtIds, found {len(statement_ids)}")
    return Batch(
        kind=kind,
        database=head["$db"],
        collection=head[kind],
        statements=statements,
        statement_ids=statement_ids,
        ordered=bool(head.get("ordered", True)),
        numbered=numbered,
        common={
            **{name: value for name, value in head.items() if name not in _OURS and name != kind},
            "writeConcern": write_concern(head),
        },
    )


@dataclass(slots=True)
class Tally:
    """The reply as it grows."""

    kind: str
    n: int = 0
    modified: int = 0
    upserted: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    concern_errors: list[Mapping[str, Any]] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    times: Times = field(default_factory=lambda: Times())

    def add(self, indices: Sequence[int], replies: Sequence[Mapping[str, Any]]) -> None:
        """The replies to one part: of one shard, or of all shards to one statement whose document lies somewhere."""
        total = sum(int(one.get("n", 0)) for one in replies)
        modified = sum(int(one.get("nModified", 0)) for one in replies)
        if len(replies) > 1 and any(one.get("retriedStmtIds") for one in replies):
            # A document that moved took the record of the write with it: two shards answer for one write.
            total, modified = min(total, 1), min(modified, 1)
        self.n += total
        self.modified += modified
        for reply in replies:
            self.times.note(reply)
            self.upserted += [{**one, "index": indices[one["index"]]} for one in reply.get("upserted", ())]
            if not (len(replies) > 1 and self.errors and self.errors[-1]["index"] == indices[0]):
                self.errors += [_told(one, indices) for one in reply.get("writeErrors", ())]
            self.retried += reply.get("retriedStmtIds", ())
            if reply.get("writeConcernError"):
                self.concern_errors.append(reply["writeConcernError"])

    def refuse(self, index: int, error: RouterError) -> None:
        """A statement that was not sent."""
        self.errors.append({"index": index, "code": error.code, "errmsg": str(error)})

    def reply(self) -> dict[str, Any]:
        """As mongos has it: indices are the client's, one write concern error stands for all."""
        document: dict[str, Any] = {"n": self.n}
        if self.kind == "update":
            document["nModified"] = self.modified
        if self.upserted:
            document["upserted"] = sorted(self.upserted, key=lambda one: one["index"])
        if self.errors:
            document["writeErrors"] = sorted(self.errors, key=lambda one: one["index"])
        if self.concern_errors:
            document["writeConcernError"] = self.concern_errors[0]
        if self.retried:
            document["retriedStmtIds"] = sorted(self.retried)
        document["ok"] = 1.0
        return {**document, **self.times.fields()}


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
