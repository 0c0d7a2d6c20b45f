"""One more router of a cluster, for what two of them know differently."""

from __future__ import annotations

from dataclasses import replace

from clusters import ports
from clusters.guard import new_token
from clusters.local import OwnCluster, spawn
from clusters.member import LocalMember, answers
from clusters.topology import ROUTER

DEADLINE = 60.0
"""Seconds until it must answer."""


async def another_router(cluster: OwnCluster, name: str) -> LocalMember:
    """A process as the router's own, that listens elsewhere. It goes with the cluster; its port is for the caller to
    give back."""
    first = cluster.router_process
    assert first is not None
    (port,) = ports.choose(1)
    host = f"127.0.0.1:{port}"
    log = cluster.directory / f"{name}.log"
    # As the command line of a mongos says it, and as that of the stand-in does.
    other = {first.listens: host, first.listens.rpartition(":")[2]: str(port), str(first.log): str(log)}
    command = [other.get(argument, argument) for argument in first.command]
    router = LocalMember(replace(ROUTER, name=name), host, command, log, new_token())
    spawn([router], cluster.ledger)
    await answers(router, DEADLINE)
    return router
