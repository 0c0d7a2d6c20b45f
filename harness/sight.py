"""What the watchers would see of a cluster: each kind of question put once to every member, and to the router.

Reads only. An attached cluster may not answer all that is asked of one's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clusters import ownership
from clusters.cluster import Cluster
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

DEADLINE: Final = 5.0
"""Seconds for each answer."""
SEEN: Final = "yes"
READ: Final = {"$readPreference": {"mode": "secondaryPreferred"}}

Question = tuple[str, dict[str, Any]]
OF_MEMBERS: Final[Mapping[str, Question]] = {
    "canary": (ownership.DATABASE, {"find": ownership.COLLECTION, "limit": 1, "singleBatch": True, **READ}),
    "currentOp": (
        "admin",
        {
            "aggregate": 1,
            "pipeline": [{"$currentOp": {"allUsers": True, "idleCursors": True}}, {"$limit": 1}],
            "cursor": {},
            **READ,
        },
    ),
    "pools": ("admin", {"connPoolStats": 1}),
    "heartbeats": ("admin", {"replSetGetStatus": 1}),
}
"""By watcher; what it asks."""
FAIL_POINTS: Final = {"getParameter": 1, "enableTestCommands": 1}


@dataclass(slots=True)
class View:
    """Of one member. `answers` by watcher: `yes`, or why not; `fail_points`: None where it is not said."""

    name: str
    host: str
    role: str
    tags: Mapping[str, str]
    state: str
    answers: dict[str, str] = field(default_factory=dict)
    fail_points: bool | None = None

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "name": self.name,
            "host": self.host,
            "role": self.role,
            "tags": dict(self.tags),
            "state": self.state,
            "watchers": self.answers,
            "fail_points": self.fail_points,
        }


async def of(cluster: Cluster) -> list[View]:
    """Of every member, all asked at once; at the end of the router."""
    asked = [
        _look(View(one.name, one.host, one.spec.role.value, one.spec.tags, ""), OF_MEMBERS)
        for one in cluster.members.values()
    ]
    if cluster.router is not None:
        through_router = {name: OF_MEMBERS[name] for name in ("canary", "currentOp", "pools")}
        asked.append(_look(View("router", cluster.router, cluster.server.router, {}, ""), through_router))
    return list(await asyncio.gather(*asked))


async def _look(view: View, questions: Mapping[str, Question]) -> View:
    try:
        connection = await Connection.open(view.host, deadline=DEADLINE)
    except (ConnectionLost, DeadlinePassed, CommandFailed) as error:
        view.state = f"unreachable: {_why(error)}"
        return view
    try:
        view.state = _state(connection.hello)
        for name, (database, command) in questions.items():
            view.answers[name] = await _answer(connection, database, command)
        reply = await connection.command("admin", FAIL_POINTS, deadline=DEADLINE)
        view.fail_points = bool(reply["enableTestCommands"])
    except (ConnectionLost, DeadlinePassed) as error:
        view.state = f"{view.state}, then {_why(error)}"
    except CommandFailed:
        view.fail_points = None
    finally:
        connection.close()
    return view


async def _answer(connection: Connection, database: str, command: dict[str, Any]) -> str:
    try:
        await connection.command(database, command, deadline=DEADLINE)
    except CommandFailed as error:
        return _why(error)
    return SEEN


def _state(hello: Mapping[str, Any]) -> str:
    if hello.get("msg") == "isdbgrid":
        return "router"
    return "primary" if hello.get("isWritablePrimary") else "secondary" if hello.get("secondary") else "neither"


def _why(error: Exception) -> str:
    return (error.code_name or str(error.code)) if isinstance(error, CommandFailed) else str(error)
