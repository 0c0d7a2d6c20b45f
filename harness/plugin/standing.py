"""The clusters of a session: one for each topology that was asked for, used by one test after the other.

Between two tests one is found whole and emptied of what was written, or it is dirty and replaced. On the background's
loop; knows nothing of pytest.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Final

from pymongo.errors import PyMongoError

from clusters import kept, providers
from clusters.cluster import Own
from clusters.errors import ClusterError, Refused
from clusters.uri import Uri
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from harness.ground import Ground
from harness.histories import History
from harness.injected import hold, recovered
from harness.plugin.background import Visit
from harness.plugin.wanted import Wanted

EMPTIED_WITHIN: Final = 30.0
"""Seconds that it may take to drop what a test wrote."""
FAILURES: Final = (ClusterError, PyMongoError, CommandFailed, ConnectionLost, DeadlinePassed, TimeoutError)


@dataclass(slots=True)
class Standing:
    """A cluster that is up. `databases` are those that were there before any test."""

    ground: Ground
    databases: frozenset[str]
    own: Own | None
    visit: Visit[Ground] | None = None
    broken: bool = False
    """Whether a fault acted on it since it was last found whole."""
    dirty: str | None = None
    """Why it did not become whole again after one."""
    users: list[str] = field(default_factory=list)

    async def recovered(self, history: History | None) -> None:
        """Wait until it is whole again, where a fault acted. Raises ClusterError; it is dirty then."""
        if not self.broken:
            return
        try:
            await recovered(replace(self.ground, history=history))
        except ClusterError as error:
            self.dirty = str(error)
            raise
        self.broken = False


class Clusters:
    """`uri`: the one cluster of ours that all tests use instead of clusters of the session."""

    def __init__(self, uri: Uri | None) -> None:
        self._uri = uri
        self._up: dict[Wanted, Standing] = {}
        self._theirs: Standing | None = None
        self.replaced: list[str] = []
        """Sentences on clusters that a test left dirty."""

    async def lent(self, wanted: Wanted, user: str) -> Standing:
        """Raises Refused, ClusterError; Unsuited where the one that is given is not what is wanted."""
        if self._uri is not None:
            if self._theirs is None:
                visit = Visit(hold(self._uri))
                ground = await visit.enter()
                self._theirs = Standing(ground, await _databases(ground), None, visit)
            if why := wanted.unlike(self._theirs.ground.cluster):
                raise Unsuited(f"the cluster at {self._uri}: {why}")
            one = self._theirs
        else:
            if wanted not in self._up:
                self._up[wanted] = await self._brought_up(wanted)
            one = self._up[wanted]
        one.users.append(user)
        return one

    async def back(self, one: Standing, user: str) -> None:
        """It is as it was, or gone. Raises ClusterError where it is not ours to replace and not as it was."""
        one.users.remove(user)
        if one.users:
            return  # a fixture of a wider scope still uses it
        dirty = await _dirt(one)
        if dirty is None:
            return
        if one.own is None:
            raise ClusterError(f"the cluster at {self._uri} is not as it was before {user}: {dirty}")
        self.replaced.append(f"{one.ground.cluster.name} was replaced after {user}: {dirty}")
        self._up = {wanted: other for wanted, other in self._up.items() if other is not one}
        await one.own.down()

    async def close(self, *, keep: bool) -> list[str]:
        """All of them down, all at once, or kept: a sentence on each of those. Raises ClusterError."""
        sentences = []
        up, self._up = list(self._up.values()), {}
        for one in up if keep else ():
            assert one.own is not None
            kept.save(one.own, created=time.time())
            name = one.own.name
            sentences.append(f"{name} is kept at {one.own.uri}; mongofault down {name} removes it")
        downs = [one.own.down() for one in up if one.own is not None and not keep]
        if self._theirs is not None and self._theirs.visit is not None:
            downs.append(self._theirs.visit.leave())
        outcomes = await asyncio.gather(*downs, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return sentences

    async def _brought_up(self, wanted: Wanted) -> Standing:
        name = f"pytest-{secrets.token_hex(3)}"
        own = await providers.bring_up(wanted.topology(), name, proxied=wanted.proxied, provider=wanted.provider)
        ground = Ground(own, own.ledger, own.guardian)
        try:
            return Standing(ground, await _databases(ground), own)
        except BaseException:
            await own.down()
            raise


class Unsuited(Refused):
    """The cluster that all tests are to use is not what this one wants."""


async def _dirt(one: Standing) -> str | None:
    """What is not as it was and could not be put back; None: it may be used again, and is empty."""
    if one.dirty is not None:
        return one.dirty
    cluster = one.ground.cluster
    if open_faults := [record.title for record in one.ground.ledger.open_records() if record.scope == "fault"]:
        return f"not healed: {', '.join(open_faults)}"
    for process in cluster.processes:
        if not process.running():
            return f"{process.name} is not running"
    for member in cluster.members.values():
        if member.frozen():
            return f"{member.name} is frozen"
    try:
        await one.recovered(None)
        async with asyncio.timeout(EMPTIED_WITHIN):
            await _emptied(one)
    except FAILURES as error:
        # Of a driver's words the first: behind them stands all that it knows of the servers.
        return str(error).partition(",")[0] or f"not emptied within {EMPTIED_WITHIN:g} s"
    return None


async def _databases(ground: Ground) -> frozenset[str]:
    async with ground.client(serverSelectionTimeoutMS=10_000) as client:
        return frozenset(await client.list_database_names())


async def _emptied(one: Standing) -> None:
    """What came since is dropped; what was there before is nobody's to drop."""
    async with one.ground.client(serverSelectionTimeoutMS=10_000, w="majority") as client:
        for name in await client.list_database_names():
            if name not in one.databases:
                await client.drop_database(name)
