"""Un-numbered writes: passed on, and what of them the router host could not place is sent again.

Its in-process router now and then answers a stale routing table (304 ShardInvalidatedForTargeting, 13388) to a
statement that it sent nowhere; a mongos reads the catalog again and goes on. Other errors are the client's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.router.batch import STATEMENTS, Tally, take_apart
from clusters.router.catalog import STALE, Patience
from clusters.router.errors import RouterError
from clusters.router.passing import Passing
from clusters.router.replies import encode_reply
from clusters.wire.message import Message, decode


def left_out(message: Message, reply: Message) -> bool:
    """Whether some of a write was placed nowhere: then `finish` has the reply. Costs next to nothing where not."""
    if message.command not in STATEMENTS:
        return False
    if not reply.body.startswith(b"\x01ok\x00", 4) and b"writeErrors\x00" not in reply.body:
        return False
    return bool(_stale(decode(reply.body)))


async def finish(passing: Passing, message: Message, reply: Message) -> bytes:
    """The framed reply to the whole of the write, after what was left out was sent again."""
    return encode_reply(await _again(passing, message, decode(reply.body)), message.request_id, None)


async def _again(passing: Passing, message: Message, reply: Mapping[str, Any]) -> dict[str, Any]:
    batch = take_apart(message)
    tally = Tally(batch.kind, batch.ordered, len(batch.statements))
    left = list(range(len(batch.statements)))
    patience = Patience(batch.namespace)
    while True:
        stale = _stale(reply)
        if reply.get("ok") == 1:
            kept = [one for one in reply.get("writeErrors", ()) if one["index"] not in stale]
            tally.add(left, {"": {**reply, "writeErrors": kept}})
            # Ordered, what follows the one that was placed nowhere was not tried.
            left = left[stale[0] :] if stale and batch.ordered else [left[index] for index in stale]
        elif not stale:
            raise RouterError(reply["code"], reply.get("codeName", ""), reply["errmsg"])
        if not left or (batch.ordered and tally.errors):
            return tally.reply()
        await patience.wait()
        await passing.refresh(batch.database, batch.collection)
        part = Message(batch.part(left, {}))
        reply = decode(Message(await passing.command(part)).body)


def _stale(reply: Mapping[str, Any]) -> list[int]:
    """Which statements of those sent were placed nowhere, by their index; of a whole command that was not, a mark."""
    if reply.get("ok") != 1:
        return [0] if reply.get("code") in STALE else []
    return [one["index"] for one in reply.get("writeErrors", ()) if one.get("code") in STALE]
