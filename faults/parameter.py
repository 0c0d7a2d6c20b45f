"""A parameter of a running server, set for as long as a fault acts, and set back to what it was.

What it does there, the faults know.
"""

from __future__ import annotations

from typing import Any

from clusters.guard import RunCommand, Undo
from clusters.member import Member
from faults.direct import Direct, ask


class Parameter:
    """One parameter, a whole number, on one server (`address:port`). `plan` it before anything else."""

    def __init__(self, host: str, name: str, value: int) -> None:
        self.name = name
        self.value = value
        self._host = host
        self._before: int | None = None

    def __str__(self) -> str:
        return f"parameter {self.name}"

    async def now(self, target: Member) -> int:
        """What it is on the target, whose parameter this is. Raises NoAnswer."""
        return int((await ask(target, {"getParameter": 1, self.name: 1}))[self.name])

    def plan(self, before: int) -> None:
        """What it was and will be again: of some parameters getParameter does not tell it."""
        self._before = before

    def undo(self) -> Undo:
        return RunCommand(self._host, "admin", self._set(self.before), in_memory=True)

    @property
    def before(self) -> int:
        assert self._before is not None
        return self._before

    async def on(self, server: Direct) -> None:
        await server.command(self._set(self.value))

    async def off(self, server: Direct) -> None:
        """Also where it was never set, or was planned for nothing."""
        if self._before is not None:
            await server.command(self._set(self._before))

    def _set(self, value: int) -> dict[str, Any]:
        return {"setParameter": 1, self.name: value}
