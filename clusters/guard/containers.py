"""Undo records on containers and networks, each plain data (see `undo`).

The SDK of the engine is imported only when one of them is to be carried out: the guardian must start in a blink.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.compose import engine
from clusters.guard.errors import UndoFailed

GRACE = 0.4
"""Seconds in which nothing more must turn up: a container that was asked for by one who is gone is made all the same,
a moment later."""
PAUSE = 0.05
"""Seconds between two looks at the engine, which announces nothing to us."""
LIMITS: Final = frozenset({"cpu_period", "cpu_quota", "mem_limit", "memswap_limit"})
AT_ONCE = 8
"""Removals at a time; the engine does them side by side."""


@dataclass(frozen=True, slots=True)
class RemoveContainers:
    """Remove all containers, networks and volumes that bear a token as label (`engine.TOKEN`), whatever they do."""

    token: str

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("to remove containers their token must be known")

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        quiet = 0.0
        try:
            while True:
                found = self._remove()
                now = time.monotonic()
                quiet = 0.0 if found else quiet or now
                if quiet and now - quiet >= min(GRACE, deadline):
                    return
                if now > end:
                    raise UndoFailed(f"{self}: {', '.join(found)} still there {deadline:.1f} s later")
                time.sleep(PAUSE)
        except engine.EngineFailed as error:
            raise UndoFailed(str(error)) from None

    def exist(self) -> bool:
        """Whether any container of them is there, as far as is known."""
        try:
            return bool(engine.bearing(self.token, "container"))
        except engine.EngineFailed:
            return True

    def _remove(self) -> list[str]:
        """One pass: containers, then what they used. What was there, by name."""
        from concurrent.futures import ThreadPoolExecutor

        names = []
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for kind in engine.KINDS:
                found = engine.bearing(self.token, kind)
                list(threads.map(lambda one, kind=kind: engine.remove(kind, one), found))
                names += [f"{kind} {(one.get('Names') or [one.get('Name')])[0]}" for one in found]
        return names

    def __str__(self) -> str:
        return f"remove the containers with token {self.token}"


@dataclass(frozen=True, slots=True)
class ContinueContainer:
    """Let a container go on that was paused, or whose first process was stopped. One that is gone needs no more."""

    container: str

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        while (state := _state(self.container)).get("Running"):
            if not state.get("Paused"):
                _asked(engine.signal, self.container, "CONT")
                return
            _asked(engine.unpause, self.container)
            if time.monotonic() > end:
                raise UndoFailed(f"container {self.container[:12]} is still paused")
            time.sleep(PAUSE)

    def __str__(self) -> str:
        return f"let container {self.container[:12]} go on"


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start a container again that was killed. `life` is when the life began that was to end, as the engine has it
    (`StartedAt`); ended for certain first: one that was told to end may do so much later."""

    container: str
    life: str

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        while True:
            state = _state(self.container)
            if not state:
                raise UndoFailed(f"container {self.container[:12]} is gone")
            if not state["Running"]:
                _asked(engine.start, self.container)
            elif state["StartedAt"] != self.life:
                return
            else:
                _asked(engine.signal, self.container, "KILL")
            if time.monotonic() > end:
                raise UndoFailed(f"container {self.container[:12]} is not started again after {deadline:.1f} s")
            time.sleep(PAUSE)

    def __str__(self) -> str:
        return f"start container {self.container[:12]}"


@dataclass(frozen=True, slots=True)
class ReconnectContainer:
    """Connect a container to a network again, under its aliases and its address there. One that is gone needs none."""

    container: str
    network: str
    aliases: Sequence[str]
    address: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "aliases", tuple(self.aliases))

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        while True:
            found = _asked(engine.inspect, self.container)
            # An endpoint without an address is one that is being connected or disconnected.
            if found is None or (attached := networks(found).get(self.network, {})).get("IPAddress") == self.address:
                return
            try:
                if attached:
                    engine.detach(self.network, self.container)
                engine.attach(self.network, self.container, aliases=self.aliases, address=self.address)
            except engine.EngineFailed as error:
                if time.monotonic() > end:
                    raise UndoFailed(str(error)) from None
            time.sleep(PAUSE)

    def __str__(self) -> str:
        return f"connect container {self.container[:12]} to network {self.network[:12]} as {self.address}"


@dataclass(frozen=True, slots=True)
class LimitContainer:
    """Give a container limits, in the engine's names, and start it if the kernel has killed it for want of memory. One
    that is gone needs none."""

    container: str
    limits: Mapping[str, int]

    def __post_init__(self) -> None:
        if unknown := set(self.limits) - LIMITS:
            raise ValueError(f"expected limits of a container, found {', '.join(sorted(unknown))}")

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        while True:
            try:
                engine.limit(self.container, self.limits)
                break
            except engine.EngineFailed as error:
                # One that is ending can be given none for a moment.
                if time.monotonic() > end:
                    raise UndoFailed(str(error)) from None
            time.sleep(PAUSE)
        state = _state(self.container)
        if state.get("OOMKilled") and not state["Running"]:
            _asked(engine.start, self.container)

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self.limits.items())
        return f"{told} for container {self.container[:12]}"


def networks(inspected: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The endpoints of a container that the engine has inspected, by the id of their network."""
    found = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    return {one["NetworkID"]: one for one in found.values() if one.get("NetworkID")}


def _state(container: str) -> dict[str, Any]:
    """Nothing where the container is gone."""
    found = _asked(engine.inspect, container)
    return {} if found is None else dict(found["State"])


def _asked(ask: Any, *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except engine.EngineFailed as error:
        raise UndoFailed(str(error)) from None
