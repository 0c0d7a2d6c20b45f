"""What a fault is: available or not, injected, proven, healed; and a record from which another process can heal it.

A fault knows its site: one target, the cluster it is in, the namespace that is watched. It records and judges nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from clusters.cluster import Cluster
from clusters.errors import ClusterError, Refused
from clusters.guard import Ledger, Opening, Undo
from clusters.member import Member
from faults.direct import FAILURES
from faults.options import Options


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a fault is known to be active: one sentence, and what was read (JSON-able)."""

    statement: str
    fields: dict[str, Any] = field(default_factory=dict)


class Unproven(ClusterError):
    """The fault could not be shown to be active. A fault without proof was not injected: the run is `unknown`."""


class HealFailed(ClusterError):
    """The fault could not be shown to be gone by its deadline. Its undo record stays in the ledger."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a fault is to act. `namespace` is what the load watches, for faults that strike one namespace alone."""

    cluster: Cluster
    target: Member
    namespace: str | None = None


class Fault(Protocol):
    """A fault on one target.

    `available` is asked first: some learn there what they will have to put back.
    `heal` is idempotent and has a deadline of its own; `undo` is plain data, written down before `inject` acts. Both
    `heal` and the undo records are done with as well when the target's process is gone.
    """

    name: ClassVar[str]
    options: ClassVar[type[Options]]
    spares_health: ClassVar[bool]
    """Whether the target goes on answering hello and heartbeats, so that nobody takes it for broken."""
    needs: ClassVar[str]
    """What it can be aimed at, as in `a secondary`."""
    proven_by: ClassVar[str]
    """What shows that it acts, other than the reply to the command that began it."""
    healed_by: ClassVar[str]
    aim: ClassVar[str]
    """The node spec, within a set, of what it is aimed at where nobody says more."""
    target: Member

    def __init__(self, site: Site, options: Any = ...) -> None:
        """`options` an instance of the class's `options`."""

    async def available(self) -> str | None:
        """Why it cannot be injected, or None. Reads, and changes nothing."""

    def undo(self) -> Sequence[Undo]:
        """The primitives that heal it without this process's memory."""

    async def inject(self) -> None: ...

    async def proof(self) -> Evidence:
        """Raises Unproven."""

    async def active(self) -> bool:
        """Whether it acts at this moment; asked many times while it is held, so it must be cheap."""

    async def heal(self) -> None:
        """Raises HealFailed."""


_registry: dict[str, type[Fault]] = {}
Registered = TypeVar("Registered", bound=type[Any])


def register(fault: Registered) -> Registered:
    """Class decorator: the fault can be asked for by its name."""
    _registry[fault.name] = fault
    return fault


def names() -> list[str]:
    return sorted(_registry)


def summary(name: str) -> str:
    """What a fault does, in the first sentence of its module's docstring."""
    text = sys.modules[by_name(name).__module__].__doc__ or ""
    return text.partition("\n")[0].partition(": ")[2]


def by_name(name: str) -> type[Fault]:
    """Raises Refused naming the faults there are."""
    try:
        return _registry[name]
    except KeyError:
        raise Refused(f"unknown fault {name!r}: expected one of {', '.join(names())}") from None


class Injection:
    """A fault together with its undo records: in the ledger before it acts, out of it once it is healed.

    A cancelled caller does not stop the healing.
    """

    def __init__(self, fault: Fault, ledger: Ledger, *, guarded: Callable[[], bool]) -> None:
        self.fault = fault
        self._ledger = ledger
        self._guarded = guarded
        self._records: list[int] = []

    async def inject(self) -> Evidence:
        """Write down how to undo it, do it, prove it. Raises Unproven, also where it is not even tried."""
        if not self._guarded():
            raise Unproven("the guardian that would heal after a crash is gone: nothing is broken without it")
        title = f"{self.fault.name} {self.fault.target.name}"
        self._records = self._ledger.open_many([Opening(undo, "fault", title) for undo in self.fault.undo()])
        acting = asyncio.create_task(self.fault.inject())
        try:
            await asyncio.shield(acting)
            return await self.fault.proof()
        except asyncio.CancelledError:
            # An act under way may take effect after its undoing: it is waited for, so that the heal comes last.
            await asyncio.wait([acting])
            raise
        except Unproven:
            raise
        except (ClusterError, *FAILURES) as error:
            raise Unproven(f"{title}: {error}") from error

    async def heal(self) -> None:
        """Raises HealFailed; shielded: half a heal would leave a member frozen for good."""
        await asyncio.shield(asyncio.create_task(self._heal()))

    async def _heal(self) -> None:
        try:
            await self.fault.heal()
        except HealFailed:
            raise
        except (ClusterError, *FAILURES) as error:
            raise HealFailed(f"{self.fault.name} {self.fault.target.name}: {error}") from error
        self._ledger.close_many(self._records)
        self._records = []
