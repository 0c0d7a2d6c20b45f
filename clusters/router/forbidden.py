"""The one gate to the router host: what passes gets its `cluster*` name, what would abort the mongod is refused.

Everything sent to the router host goes through here, so that no path can forget it. Knows bytes, not clusters.

Measured on 6.0.5: the process dies of `txnNumber` on a cluster write (invariant in transaction_router.cpp), and of a
`clusterGetMore` that waits for data (`Invariant failure haveClient()`): of change streams and of tailable awaitData
cursors alike. Whatever could lead there is refused, not only what was seen to.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from clusters.router.errors import RouterError
from clusters.router.rewrite import ARRAY, DOCUMENT, STRING, elements, keys_anywhere
from clusters.wire.message import OP_MSG, Message, ProtocolError, encode, encode_body

CLUSTER_FORM: Final = {
    "find": "clusterFind",
    "aggregate": "clusterAggregate",
    "getMore": "clusterGetMore",
    "insert": "clusterInsert",
    "update": "clusterUpdate",
    "delete": "clusterDelete",
}
"""What passes, and its name on a 6.0 shard server; there is no clusterFindAndModify."""

EXPLAINED: Final = frozenset(("find", "aggregate"))

PLAIN: Final = frozenset(
    (
        "buildInfo",
        "connPoolStats",
        "features",
        "flushRouterConfig",
        "getParameter",
        "hostInfo",
        "listCommands",
        "setParameter",
        "shardingState",
    )
)
"""What the router host may be asked as itself: nothing of this touches its in-process router."""

TRANSACTION: Final = frozenset((b"txnNumber", b"autocommit", b"startTransaction", b"txnRetryCounter", b"coordinator"))
STATEMENTS: Final = frozenset((b"stmtId", b"stmtIds"))
AMONG_SERVERS: Final = frozenset(
    (
        b"shardVersion",
        b"databaseVersion",
        b"fromMongos",
        b"fromRouter",
        b"needsMerge",
        b"exchange",
        b"mayBypassWriteBlocking",
        b"$replData",
        b"$oplogQueryData",
        b"$configServerState",
        b"$configTime",
        b"$topologyTime",
        b"$audit",
        b"$client",
    )
)
TAILABLE: Final = frozenset((b"tailable", b"awaitData"))
_LOCAL: Final = b"\x02$db\x00\x06\x00\x00\x00local\x00"
_LOOKED_AT: Final = TRANSACTION | STATEMENTS | AMONG_SERVERS | TAILABLE | {b"$db", b"getMore"}
SEQUENCES: Final = {
    "insert": b"documents",
    "update": b"updates",
    "delete": b"deletes",
    "aggregate": b"pipeline",
}
"""The one document sequence each command may carry; any other could smuggle a field in."""


class Forbidden(RouterError):
    """A command that must not reach the router host. Nothing was sent."""

    def __init__(self, why: str) -> None:
        super().__init__(20, "IllegalOperation", f"the stand-in router does not pass this on: {why}")


def to_cluster_form(message: Message, opened: Container[int]) -> bytes:
    """The message as it goes to the router host; its request id is kept, so that the reply answers the client's.

    `opened`: the cursors opened on the router host through this router; a getMore of any other is refused.
    Raises Forbidden.
    """
    if message.op != OP_MSG:
        raise Forbidden("only OP_MSG can be passed on")
    command = message.command
    form = CLUSTER_FORM.get(command)
    if form is None:
        raise Forbidden(f"{command!r} has no cluster form that is known to be safe")
    try:
        _check(command, message, opened)
    except ProtocolError as error:
        raise Forbidden(str(error)) from error
    return message.renamed(form.encode())


def explain_form(message: Message) -> bytes:
    """An explain of a find or an aggregate as it goes to the router host. Raises Forbidden.

    Of nothing else: a shard that is told to explain a `clusterUpdate` asks itself to, until its stack ends (measured
    on 6.0.5: the shard's primary is gone).
    """
    command = message.document()
    inner = command.get("explain")
    if message.op != OP_MSG or not isinstance(inner, Mapping) or next(iter(inner), "") not in EXPLAINED:
        raise Forbidden(f"explain is of {' or '.join(sorted(EXPLAINED))} only")
    if not isinstance(inner[next(iter(inner))], str):
        raise Forbidden("an explain without a collection")
    asked = Message(encode({**inner, "$db": command["$db"]}, request_id=message.request_id))
    form = Message(to_cluster_form(asked, ())).document()
    del form["$db"]  # an explained command takes its database from the explain
    kept = ("verbosity", "comment", "maxTimeMS", "$readPreference", "$db")
    fields: dict[str, Any] = {name: command[name] for name in kept if name in command}
    return encode({"explain": form, **fields}, request_id=message.request_id)


def as_itself(message: Message) -> bytes:
    """A plain command to the router host, under its own name. Raises Forbidden for what is not in PLAIN.

    Also an aggregate on no collection: `$currentOp`, and `$documents` of the router's own.
    """
    command = message.command
    known = command in PLAIN or (command == "aggregate" and not names_collection(message))
    if message.op != OP_MSG or not known or message.has_sequences:
        raise Forbidden(f"{command!r} is not among what the router host is asked as itself")
    return encode_body(message.body, request_id=message.request_id)


def names_collection(message: Message) -> bool:
    """Whether the command's own value is a collection's name: an aggregate may have a number there."""
    return message.raw[message.begin + 4] == STRING


def _check(command: str, message: Message, opened: Container[int]) -> None:
    fields = message.fields  # raises where a name stands twice
    for name in _LOOKED_AT.intersection(fields):
        if name == b"$db":
            if message.raw.startswith(_LOCAL, fields[name]):
                raise Forbidden("database local is each member's own; connect to the member")
        elif name in TAILABLE:
            if message.number(name) != 0:
                raise Forbidden("a tailable cursor that waits for data would abort the router host; use a mongos")
        elif name != b"getMore":
            raise Forbidden(_why_not(command, name))
        else:
            identity = message.number(name)
            if identity is None or identity not in opened:
                raise Forbidden(f"cursor {identity} was not opened on the router host through this router")
    for identifier in message.identifiers:
        if identifier in fields:
            raise Forbidden(f"field {identifier!r} stands in {command} twice")
        if SEQUENCES.get(command) != identifier or len(message.identifiers) > 1:
            raise Forbidden(f"{command} with a document sequence {identifier!r}")
    if command == "aggregate" and b"hangeStream" in message.raw:
        _check_pipeline(message)


def _why_not(command: str, name: bytes) -> str:
    what = f"{command} with {name.decode()}"
    if name in AMONG_SERVERS:
        return f"{what}, which only servers say to each other"
    return f"{what}: a numbered write or a transaction would abort the router host"


def _check_pipeline(message: Message) -> None:
    """No stage of a change stream at any depth: `$unionWith`, `$lookup` and `$facet` hold pipelines too."""
    for element in elements(message.body):
        if element.kind in (DOCUMENT, ARRAY):
            _check_keys(message.body, element.value)
    for _identifier, documents in message.sequences():
        for document in documents:
            _check_keys(document, 0)


def _check_keys(raw: bytes, start: int) -> None:
    for key in keys_anywhere(raw, start):
        if "hangeStream" in key:
            raise Forbidden(f"{key} would abort the router host; change streams are merged by the router itself")
