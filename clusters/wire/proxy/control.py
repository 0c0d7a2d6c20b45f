"""The control address: a server that knows the proxy's commands, for raw connections and for drivers.

| command | answer |
|---|---|
| `{proxyAddRule: {kind, to, source, commands, namespace, direction, ms, ...}}`, with `id` to give one | `id` |
| `{proxyRemoveRule: id}` | `removed`: false where there was none, which is no error: heal may run twice |
| `{proxyStatus: 1}` | `links`, `rules` with what each has acted on, `tap` |
| `{proxyTap: {on: true, links: [...], clear: false}}` | |
| `{proxyCounts: {by: "command", limit: 10000, ...}}`, with fields of that table | `rows`, `leftOff`, `dropped` |

An answer comes after the rule is in force, or gone, on every open connection.
"""

from __future__ import annotations

import asyncio
import datetime
import struct
from collections.abc import Mapping
from typing import Any, Final, cast

from clusters.wire.framing import read_room, take
from clusters.wire.message import (
    MORE_TO_COME,
    OP_MSG,
    OP_QUERY,
    Message,
    ProtocolError,
    encode,
    encode_op_reply,
    next_request_id,
)
from clusters.wire.proxy.errors import Refusal
from clusters.wire.proxy.proxy import Proxy

SPOKEN: Final = frozenset((OP_MSG, OP_QUERY))
ROWS: Final = 10_000
"""Rows of counts in one answer, unless `limit` says otherwise."""
GENERIC: Final = frozenset(("$db", "lsid", "$readPreference", "$clusterTime", "comment", "maxTimeMS", "apiVersion"))
"""What drivers add to any command."""


def answer(proxy: Proxy, command: Mapping[str, Any]) -> dict[str, Any]:
    """What a command does. Raises Refusal."""
    name = next(iter(command), "")
    value = command.get(name)
    for field in command:
        if field != name and field not in GENERIC and name.startswith("proxy"):
            raise Refusal(40415, f"BSON field '{name}.{field}' is an unknown field.")
    match name:
        case "proxyAddRule":
            return {"id": proxy.add_rule(_mapping(name, value))}
        case "proxyRemoveRule":
            if not isinstance(value, str):
                raise Refusal(14, f"expected proxyRemoveRule to be the id of a rule, found {value!r}")
            return {"removed": proxy.remove_rule(value)}
        case "proxyStatus":
            return proxy.status()
        case "proxyTap":
            return _tap(proxy, _mapping(name, value))
        case "proxyCounts":
            fields = dict(_mapping(name, value))
            limit = fields.pop("limit", ROWS)
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise Refusal(2, f"expected proxyCounts.limit to be 0 or more, found {limit!r}")
            return proxy.tap.counts(fields.pop("by", "command"), fields, limit)
        case "hello" | "isMaster" | "ismaster":
            return _hello(name)
        case "ping" | "endSessions":
            return {}
    raise Refusal(59, f"no such command: '{name}'")


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refusal(9, f"expected {name} to be a document, found {value!r}")
    return value


def _tap(proxy: Proxy, fields: Mapping[str, Any]) -> dict[str, Any]:
    for field in fields:
        if field not in ("on", "links", "clear"):
            raise Refusal(40415, f"BSON field 'proxyTap.{field}' is an unknown field.")
    on, links, clear = fields.get("on"), fields.get("links", []), fields.get("clear", False)
    if not isinstance(on, bool) or not isinstance(clear, bool):
        raise Refusal(14, f"expected proxyTap.on and clear to be true or false, found {on!r} and {clear!r}")
    if not isinstance(links, list):
        raise Refusal(14, f"expected proxyTap.links to be names, found {links!r}")
    proxy.switch_tap(on, links)
    if clear:
        proxy.tap.clear()
    return {}


def _hello(name: str) -> dict[str, Any]:
    return {
        "isWritablePrimary" if name == "hello" else "ismaster": True,
        "helloOk": True,
        "msg": "mongofault proxy",
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
        "localTime": datetime.datetime.now(datetime.UTC),
        "minWireVersion": 0,
        "maxWireVersion": 17,
    }


class Control(asyncio.BufferedProtocol):
    """One connection to the control address."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._room = read_room()
        self._kept = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        assert self._transport is not None
        try:
            for raw in take(self._kept, self._room[:nbytes], SPOKEN):
                if reply := self._reply(Message(raw)):
                    self._transport.write(reply)
        except (ProtocolError, ValueError, LookupError, struct.error):
            self._transport.abort()

    def _reply(self, message: Message) -> bytes:
        try:
            document = {**answer(self._proxy, message.document()), "ok": 1.0}
        except Refusal as error:
            document = error.reply()
        if message.op == OP_QUERY:
            return encode_op_reply(document, response_to=message.request_id)
        if message.flags & MORE_TO_COME:
            return b""
        return encode(document, request_id=next_request_id(), response_to=message.request_id)
