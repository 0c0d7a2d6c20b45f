"""By what right one talks to a host: TLS, and who one says one is. Kept in this process's memory and nowhere else.

Whoever opens a connection need not know of it: it is said once for a host, and every connection to that host uses it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusters.wire.scram import MECHANISMS, Exchange, Mechanism

if TYPE_CHECKING:
    from clusters.wire.connection import Connection


@dataclass(frozen=True, slots=True)
class Access:
    """`source` is the database that knows the user; no `mechanism` means the strongest that the server has for it."""

    user: str | None = None
    password: str = field(default="", repr=False)
    source: str = "admin"
    mechanism: Mechanism | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)


OPEN = Access()
_granted: dict[str, Access] = {}


def grant(hosts: Iterable[str], access: Access) -> None:
    """From now on connections to these hosts (`address:port`) are made so."""
    _granted.update(dict.fromkeys(hosts, access))


def to(host: str) -> Access:
    return _granted.get(host, OPEN)


def asked_for(access: Access) -> dict[str, Any]:
    """What a hello asks in addition: which mechanisms there are for the user."""
    if access.user is None or access.mechanism is not None:
        return {}
    return {"saslSupportedMechs": f"{access.source}.{access.user}"}


async def prove(connection: Connection, access: Access) -> None:
    """Authenticate a connection that has said hello. Raises CommandFailed (18: the server knows better), NotTrusted."""
    if access.user is None:
        return
    mechanism = access.mechanism or _strongest(connection.hello)
    exchange = Exchange(access.user, access.password, mechanism)

    async def go_on(payload: bytes) -> dict[str, Any]:
        following = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": payload}
        return await connection.command(access.source, following)

    options = {"skipEmptyExchange": True}
    start = {"saslStart": 1, "mechanism": mechanism, "payload": exchange.first(), "options": options}
    reply = await connection.command(access.source, start)
    reply = await go_on(exchange.final(bytes(reply["payload"])))
    exchange.verify(bytes(reply["payload"]))
    if not reply["done"]:
        await go_on(b"")


def _strongest(hello: Mapping[str, Any]) -> Mechanism:
    known = hello.get("saslSupportedMechs", ())
    return next((one for one in MECHANISMS if one in known), "SCRAM-SHA-256")
