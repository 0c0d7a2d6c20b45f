"""What the faults in the network share: rules of the proxy that stands before every node, put in force and taken back.

A rule acts on what is sent to its target, by whom it is sent (`source`), and where asked by command or namespace. Each
fault says which rules it is, and what a probe must see; the probe says to be one of those whom the rules are for.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from pydantic import Field

from clusters.cluster import Cluster
from clusters.compose.container import ContainerMember
from clusters.guard import RemoveRule, Undo
from clusters.member import LocalProcess, Member
from clusters.topology import ROUTER
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from clusters.wire.proxy.client import Kind, ProxyControl, Rule
from faults.base import Evidence, HealFailed, Site, Unproven, by_name
from faults.either import Either
from faults.harmless import HARMLESS
from faults.options import Names, Options

NO_ANSWER = 0.5
"""Seconds without an answer that prove that one does not come; on an idle machine it takes a millisecond."""
ANSWER = 5.0
"""Seconds in which one must come that is not held up."""
DRIVER = "driver"
APP = "app:"


class SourceOptions(Options):
    """Options of every fault in the network."""

    source: Names = Field(
        default=(),
        description="Who is struck on the way to the target: a member, router, driver, app:NAME; several by comma; "
        "anybody where it is left out.",
    )


class MessageOptions(SourceOptions):
    """Options of those that can pick among messages."""

    commands: Names = Field(default=(), description="Commands, by comma, as they are sent; else all.")
    namespace: str = Field(default="", description="DATABASE.COLLECTION or DATABASE; else all.")


class Probe:
    """One who asks the target as somebody else would; what comes of it is the effect of a rule on that one."""

    def __init__(self, cluster: Cluster, target: Member, source: str, command: str = "", namespace: str = "") -> None:
        self._cluster, self._target, self._source = cluster, target, source
        database, _, collection = namespace.partition(".")
        self._database = database or "admin"
        value: Any = (collection or "probe") if command in HARMLESS or collection else 1
        self._document = {command or "ping": value, **HARMLESS.get(command, {})}
        self._connection: Connection | None = None

    async def connect(self) -> None:
        """Raises ConnectionLost, DeadlinePassed."""
        self.close()
        more: dict[str, Any] = {"app_name": "mongofault proof"}
        if self._source == ROUTER.name:
            more["app_name"] = "mongofault router, proof"
        elif self._source.startswith(APP):
            more["app_name"] = self._source.removeprefix(APP)
        elif self._source not in ("", DRIVER):
            member = self._cluster.members[self._source]
            more["host_info"] = member.listens if isinstance(member, LocalProcess | ContainerMember) else member.host
        self._connection = await Connection.open(self._target.host, deadline=ANSWER, **more)

    async def ask(self, deadline: float = ANSWER, **fields: Any) -> float:
        """Seconds until the answer, whatever it says. Raises ConnectionLost, DeadlinePassed."""
        assert self._connection is not None
        began = time.monotonic()
        with suppress(CommandFailed):
            preference = {"$readPreference": {"mode": "secondaryPreferred"}} if "ping" not in self._document else {}
            await self._connection.command(
                self._database, {**self._document, **fields, **preference}, deadline=deadline
            )
        return time.monotonic() - began

    async def silent(self) -> bool:
        """Whether no answer comes. Raises ConnectionLost."""
        try:
            await self.ask(NO_ANSWER)
        except DeadlinePassed:
            return True
        return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class NetworkFault:
    """A fault made of rules. The classes made from it have `name`, `options`, `rules` and `effect`."""

    name: ClassVar[str]
    options: ClassVar[type[Options]] = SourceOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a node with a proxy before it (up --proxied)"
    proven_by: ClassVar[str] = "a probe that says to be one of those who are struck, and the proxy's count"
    healed_by: ClassVar[str] = "the rule removed, and seen to be gone"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self.given: Any = options or self.options()
        self.cluster = site.cluster
        self._control = proxy.host if (proxy := site.cluster.proxy) is not None else None
        self._name = f"{self.name} {site.target.name} {secrets.token_hex(3)}"
        self._kept: ProxyControl | None = None
        """From the injection to the heal: it is looked at many times a second."""

    # What each is

    def rules(self) -> Sequence[Rule]:
        """What is in force while it acts."""
        raise NotImplementedError

    async def effect(self, probe: Probe) -> str:
        """What the probe, connected since before, sees of it, as a sentence. Raises Unproven."""
        raise NotImplementedError

    # What they share

    @property
    def sources(self) -> tuple[str, ...]:
        found: tuple[str, ...] = self.given.source
        return found

    def rule(self, kind: Kind, **more: Any) -> Rule:
        """On what is sent to the target, as far as the options say whose and which."""
        picked = self.given.model_dump(include={"commands", "namespace"})
        return Rule(kind, to=(self.target.name,), source=self.sources, **picked, **more)

    def probe(self) -> Probe:
        command = (*getattr(self.given, "commands", ()), "")[0]
        namespace = getattr(self.given, "namespace", "")
        return Probe(self.cluster, self.target, (*self.sources, DRIVER)[0], command, namespace)

    async def available(self) -> str | None:
        if self._control is None:
            return f"no proxy stands before {self.target.name}: bring the cluster up with --proxied"
        known = [*self.cluster.members, ROUTER.name, DRIVER]
        for one in self.sources:
            if one not in known and not one.startswith(APP):
                return f"source={one}: expected one of {', '.join(known)} or app:NAME"
        return None if self.target.running() else f"{self.target.name} is not running"

    def undo(self) -> Sequence[Undo]:
        assert self._control is not None
        return [RemoveRule(self._control, name) for name in self._names()]

    async def inject(self) -> None:
        self._probe = self.probe()
        try:
            await self._probe.connect()
            await self._probe.ask()
        except (ConnectionLost, DeadlinePassed) as error:
            raise Unproven(f"{self.target.name} cannot be reached before the fault: {error}") from error
        assert self._control is not None
        self._kept = await ProxyControl.open(self._control)
        for name, rule in zip(self._names(), self.rules(), strict=True):
            await self._kept.add(rule, name)

    async def proof(self) -> Evidence:
        try:
            seen = await self.effect(self._probe)
        except (ConnectionLost, DeadlinePassed) as error:
            raise Unproven(f"{self.name} on {self.target.name} has another effect: {error}") from error
        finally:
            self._probe.close()
        counts = await self._in_force()
        if not any(one["connections"] or one["messages"] for one in counts):
            raise Unproven(f"{self.name} on {self.target.name}: the proxy has counted nothing that it acted on")
        acted = {name: sum(one[name] for one in counts) for name in ("connections", "messages", "bytes", "resets")}
        told = ", ".join(f"{count} {name}" for name, count in acted.items() if count)
        return Evidence(f"{seen}; the proxy counts {told}", acted)

    async def active(self) -> bool:
        try:
            return len(await self._in_force()) == len(self._names())
        except (ConnectionLost, DeadlinePassed, CommandFailed):
            return False

    async def heal(self) -> None:
        try:
            async with self._proxy() as proxy:
                for name in self._names():
                    await proxy.remove(name)
            if await self._in_force():
                raise HealFailed(f"{self.name} on {self.target.name} is still in force after it was removed")
        except (ConnectionLost, DeadlinePassed, CommandFailed) as error:
            if self.cluster.proxy is None or not self.cluster.proxy.running():
                return  # It took its rules along.
            raise HealFailed(f"the proxy cannot be told to remove {self.name}: {error}") from error
        finally:
            if self._kept is not None:
                self._kept.close()
                self._kept = None

    def _names(self) -> list[str]:
        """Of its rules, in their order."""
        return [f"{self._name} {number}" for number, _rule in enumerate(self.rules())]

    @asynccontextmanager
    async def _proxy(self) -> AsyncIterator[ProxyControl]:
        if self._kept is not None and self._kept.usable:
            yield self._kept
            return
        assert self._control is not None
        proxy = await ProxyControl.open(self._control)
        try:
            yield proxy
        finally:
            proxy.close()

    async def _in_force(self) -> list[dict[str, Any]]:
        """The proxy's word of each of its rules that is in force."""
        async with self._proxy() as proxy:
            rules = (await proxy.status())["rules"]
        ours = set(self._names())
        return [dict(one) for one in rules if one["id"] in ours]


def in_the_network(name: str, options: Sequence[str] = (), *, contained: bool = False) -> bool:
    """Whether the fault of that name, with these NAME=VALUE, needs a proxy before its target; some do not where that is
    a container."""
    kind = by_name(name)
    if not issubclass(kind, Either):
        return issubclass(kind, NetworkFault)
    by = dict(one.partition("=")[::2] for one in options).get("by", "auto")
    return by == "proxy" or (by == "auto" and (kind.rather_by_proxy or not contained))
