"""Who is at the other end of a connection, from the first message on it; and that message without compression.

What a 6.0.5 mongod sends first (the first four rows measured with three members behind proxies, the others from the
client metadata that `$currentOp` has of a two-shard cluster): `isMaster`, as OP_MSG with a checksum.

| connection | client.driver.name | client.application.name |
|---|---|---|
| heartbeats, votes | NetworkInterfaceTL-ReplNetwork | |
| replSetUpdatePosition | NetworkInterfaceTL-ReplCoordExternNetwork | |
| the oplog (one getMore, replies without end) | MongoDB Internal Client | OplogFetcher |
| initial sync's clones | MongoDB Internal Client | |
| reads mirrored to secondaries | NetworkInterfaceTL-MirrorMaestro | |
| the monitor of other sets | NetworkInterfaceTL-ReplicaSetMonitor-TaskExecutor | |
| the catalog, from config servers | NetworkInterfaceTL-ShardRegistry | |
| routed commands, to shards | NetworkInterfaceTL-TaskExecutorPool-0 | |
| adding a shard | NetworkInterfaceTL-AddShard-TaskExecutor | |

`hostInfo` is `HOSTNAME:PORT` with the member's own port, whatever the set's configuration calls it, and is sent only
with enableTestCommands=1. A member new to a configuration sends `_isSelf` to each host with no hello before. Members
offer snappy, zstd and zlib; with an empty list they compress nothing. Their CRC-32C stays, a message without is taken.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.wire.message import CHECKSUM_PRESENT, OP_MSG, Message, ProtocolError, decode

APP: Final = "app:"
DRIVER: Final = "driver"
ROUTER: Final = "router"
UNKNOWN: Final = "unknown"
HELLO: Final = frozenset(("hello", "isMaster", "ismaster"))
ROUTER_APP: Final = "mongofault router"
"""How the stand-in router's application names begin. A mongos sends `hostInfo`, as a member does."""

_SERVERS: Final = ("NetworkInterfaceTL", "MongoDB Internal Client")
"""How the driver names of servers begin: those that do not say which one they are, or are no peer."""
_INT: Final = struct.Struct("<i")
_EMPTY_ARRAY: Final = b"\x05\x00\x00\x00\x00"
_COMPRESSION: Final = b"compression"


@dataclass(frozen=True, slots=True)
class Source:
    """`name` is a peer's, or `router`, `driver`, `unknown`; `app` and `driver` as the client metadata has them."""

    name: str
    app: str = ""
    driver: str = ""

    def called(self, wanted: str) -> bool:
        return wanted == self.name or (wanted.startswith(APP) and wanted[len(APP) :] == self.app)


NOBODY: Final = Source(UNKNOWN)


def identify(message: Message, peers: Mapping[str, str]) -> Source:
    """Who sent this first message; `peers` is address -> name. Raises ProtocolError, ValueError on bytes not BSON.

    A peer is known by its whole address, else by its port where only one peer has it: a server puts its own idea of
    its host's name before it.
    """
    if message.command not in HELLO:
        return NOBODY
    hello = decode(message.body)
    client = _mapping(hello.get("client"))
    app = str(_mapping(client.get("application")).get("name", ""))
    driver = str(_mapping(client.get("driver")).get("name", ""))
    address = hello.get("hostInfo")
    if isinstance(address, str):
        name = peers.get(address) or _by_port(address, peers)
        if name is not None:
            return Source(name, app, driver)
    if app.startswith(ROUTER_APP):
        return Source(ROUTER, app, driver)
    return Source(UNKNOWN if driver.startswith(_SERVERS) else DRIVER, app, driver)


def _by_port(address: str, peers: Mapping[str, str]) -> str | None:
    port = ":" + address.rpartition(":")[2]
    found = {name for peer, name in peers.items() if peer.endswith(port)}
    return found.pop() if len(found) == 1 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def without_compression(message: Message) -> bytes:
    """A hello that offers no compression, framed; the same bytes where it offers none.

    A changed message goes without its checksum, which no server insists on.
    """
    raw = message.raw
    at = message.fields.get(_COMPRESSION)
    if at is None or raw[at] != 0x04:
        return raw
    value = at + 1 + len(_COMPRESSION) + 1
    (size,) = _INT.unpack_from(raw, value)
    if size == len(_EMPTY_ARRAY):
        return raw
    if size < len(_EMPTY_ARRAY) or value + size > message.end:
        raise ProtocolError(f"an array of {size} bytes does not fit its document")
    end = len(raw)
    changed = bytearray(raw[:value] + _EMPTY_ARRAY)
    if message.op == OP_MSG and message.flags & CHECKSUM_PRESENT:
        end -= 4
        _INT.pack_into(changed, 16, message.flags & ~CHECKSUM_PRESENT)
    changed += raw[value + size : end]
    (body,) = _INT.unpack_from(raw, message.begin)
    _INT.pack_into(changed, message.begin, body - size + len(_EMPTY_ARRAY))
    _INT.pack_into(changed, 0, len(changed))
    return bytes(changed)
