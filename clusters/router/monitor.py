"""The router's replica set monitor: who is primary, who can be read from, how far each member is.

A task per member waits in an awaitable hello, so a change is known at once. Knows nothing of shards or commands.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.router.errors import RouterError
from clusters.router.read_preference import Candidate, eligible, parse
from clusters.wire.connection import Connection
from clusters.wire.proxy.source import ROUTER_APP

AWAIT = 10.0
"""Seconds a hello may wait in the member for a change (`maxAwaitTimeMS`), as mongos and drivers have it."""
ANSWER = 10.0
"""Seconds past that until the member counts as gone: a frozen member is dropped after 10 to 20 s (mongos: 10 to 18)."""
PING_EVERY = 10.0
APP_NAME = f"{ROUTER_APP} monitor"
RETRY_EVERY = 0.5
EWMA_WEIGHT = 0.2
"""Weight of a new round trip in the average (driver specification "Server Selection")."""


class _Member:
    """What is known of one host; `hello` is empty while it does not answer."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.hello: Mapping[str, Any] = {}
        self.round_trip: float | None = None
        self.connection: Connection | None = None
        self.tasks: list[asyncio.Task[None]] = []

    def candidate(self) -> Candidate | None:
        hello = self.hello
        if not (hello.get("isWritablePrimary") or hello.get("secondary")):
            return None
        return Candidate(
            self.host,
            bool(hello.get("isWritablePrimary")),
            hello.get("tags") or {},
            self.round_trip if self.round_trip is not None else 0.0,
        )


class Monitor:
    """Watches every set it is told of, from `start` to `stop`. `seed` fixes the random choices of `select`."""

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._sets: dict[str, dict[str, _Member]] = {}
        self._changed = asyncio.Event()
        self._cluster_time: Mapping[str, Any] | None = None
        self._running = False

    async def start(self) -> None:
        self._running = True
        for set_name, members in self._sets.items():
            for member in members.values():
                self._watch(set_name, member)

    async def stop(self) -> None:
        self._running = False
        tasks = [task for members in self._sets.values() for one in members.values() for task in one.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def watch_set(self, set_name: str, hosts: Sequence[str]) -> None:
        """Watch these and whoever they name as members. Calling it again only adds hosts not yet known.

        While there is a primary, it alone says who is in the set (driver specification "SDAM"): `config.shards` and a
        member that does not install configurations name hosts of long ago.
        """
        if not any(one.hello.get("isWritablePrimary") for one in self._sets.get(set_name, {}).values()):
            self._add(set_name, hosts)

    def _add(self, set_name: str, hosts: Sequence[str]) -> None:
        members = self._sets.setdefault(set_name, {})
        for host in hosts:
            if host not in members:
                member = members[host] = _Member(host)
                if self._running:
                    self._watch(set_name, member)

    def members(self, set_name: str) -> Sequence[str]:
        """All known hosts of the set, answering or not."""
        return sorted(self._sets.get(set_name, {}))

    def states(self) -> dict[str, dict[str, str]]:
        """Each known host by set, and what it says it is."""
        return {
            set_name: {host: _state(one.hello) for host, one in sorted(members.items())}
            for set_name, members in self._sets.items()
        }

    async def primary(self, set_name: str, *, deadline: float) -> str:
        """The writable primary's host, waited for at most `deadline` seconds; then RouterError 133."""
        return await self.select(set_name, {"mode": "primary"}, deadline=deadline)

    async def select(self, set_name: str, read_preference: Mapping[str, Any], *, deadline: float) -> str:
        """A host the read preference allows, waited for at most `deadline` seconds; then RouterError 133."""
        preference = parse(read_preference)
        allowed = eligible(preference, self._candidates(set_name))
        if allowed:  # mostly; it saves a timer
            return self._random.choice(allowed).host
        try:
            async with asyncio.timeout(deadline):
                while not allowed:
                    await self._changed.wait()
                    allowed = eligible(preference, self._candidates(set_name))
                return self._random.choice(allowed).host
        except TimeoutError:
            raise RouterError(
                133,
                "FailedToSatisfyReadPreference",
                f"no member of set {set_name} matches read preference {_text(read_preference)} within {deadline:g} s"
                f" (known: {self._known(set_name)}); start or heal one, or change mode or tags",
            ) from None

    def note_failure(self, host: str) -> None:
        """Someone lost a connection to this host: it counts as gone until it says hello again."""
        for members in self._sets.values():
            member = members.get(host)
            if member is not None and member.connection is not None:
                self._learn(member, {})
                member.connection.close()

    def cluster_time(self) -> Mapping[str, Any] | None:
        """The highest `$clusterTime` seen, with its signature as received."""
        return self._cluster_time

    def note_cluster_time(self, document: Mapping[str, Any] | None) -> None:
        if document is not None and (
            self._cluster_time is None or document["clusterTime"] > self._cluster_time["clusterTime"]
        ):
            self._cluster_time = document

    def _candidates(self, set_name: str) -> list[Candidate]:
        members = self._sets.get(set_name, {}).values()
        newest = max((_term(one.hello) for one in members if one.hello.get("isWritablePrimary")), default=None)
        found = []
        for member in members:
            candidate = member.candidate()
            # A frozen old primary still has its last hello on record; the newer election wins.
            if candidate is not None and not (candidate.primary and _term(member.hello) != newest):
                found.append(candidate)
        return found

    def _known(self, set_name: str) -> str:
        return ", ".join(
            f"{one.host} {_state(one.hello)}" for _host, one in sorted(self._sets.get(set_name, {}).items())
        )

    def _watch(self, set_name: str, member: _Member) -> None:
        member.tasks = [
            asyncio.create_task(self._keep_hello(set_name, member), name=f"hello {member.host}"),
            asyncio.create_task(self._keep_round_trip(member), name=f"round trip {member.host}"),
        ]

    async def _keep_hello(self, set_name: str, member: _Member) -> None:
        failed_before = False
        while True:
            try:
                member.connection = await Connection.open(member.host, deadline=ANSWER, app_name=APP_NAME)
                hello: Mapping[str, Any] = member.connection.hello
                while True:
                    self._learn(member, hello if hello.get("setName") == set_name else {})
                    self._discover(set_name, member.hello)
                    hello = await member.connection.command(
                        "admin",
                        {
                            "hello": 1,
                            "topologyVersion": hello["topologyVersion"],
                            "maxAwaitTimeMS": int(AWAIT * 1000),
                        },
                        deadline=AWAIT + ANSWER,
                    )
                    failed_before = False
            except Exception:  # whatever it was: the member counts as gone, and is asked again
                self._learn(member, {})
                if failed_before:
                    await asyncio.sleep(RETRY_EVERY)
                failed_before = True
            finally:
                if member.connection is not None:
                    member.connection.close()

    async def _keep_round_trip(self, member: _Member) -> None:
        """On a connection of its own: a hello that waits says nothing about distance."""
        clock = asyncio.get_running_loop().time
        while True:
            connection: Connection | None = None
            try:
                connection = await Connection.open(member.host, deadline=ANSWER, app_name=APP_NAME)
                while True:
                    samples = []
                    for _ in range(3):
                        before = clock()
                        await connection.command("admin", {"hello": 1}, deadline=ANSWER)
                        samples.append(clock() - before)
                    # The least of three: on a busy machine one slow sample would shut a member out for a minute.
                    self._learn_round_trip(member, min(samples))
                    await asyncio.sleep(PING_EVERY)
            except Exception:  # `_keep_hello` is what decides whether the member is there
                await asyncio.sleep(RETRY_EVERY)
            finally:
                if connection is not None:
                    connection.close()

    def _learn_round_trip(self, member: _Member, sample: float) -> None:
        old = member.round_trip
        member.round_trip = sample if old is None else EWMA_WEIGHT * sample + (1 - EWMA_WEIGHT) * old

    def _learn(self, member: _Member, hello: Mapping[str, Any]) -> None:
        member.hello = hello
        self.note_cluster_time(hello.get("$clusterTime"))
        self._changed.set()
        self._changed = asyncio.Event()

    def _discover(self, set_name: str, hello: Mapping[str, Any]) -> None:
        named = [*hello.get("hosts", ()), *hello.get("passives", ())]
        if not hello.get("isWritablePrimary"):
            self.watch_set(set_name, named)
            return
        self._add(set_name, named)
        members = self._sets[set_name]
        for host in [one for one in members if one not in named]:
            for task in members.pop(host).tasks:
                task.cancel()


def _term(hello: Mapping[str, Any]) -> tuple[bytes, int]:
    """Orders primaries of one set: the newer election is the greater (driver specification "SDAM", 6.0)."""
    election = hello.get("electionId")
    return (election.binary if election is not None else b"", int(hello.get("setVersion", 0)))


def _state(hello: Mapping[str, Any]) -> str:
    if not hello:
        return "does not answer"
    if hello.get("isWritablePrimary"):
        return "primary"
    tags = hello.get("tags")
    return ("secondary" if hello.get("secondary") else "neither") + (f" {_text(tags)}" if tags else "")


def _text(value: Any) -> str:
    """As a person writes it: {mode: secondary, tags: [{dc: a}]}."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    return str(value)
