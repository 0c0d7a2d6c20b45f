"""A fail point of a server as a means to break it: switched on, counted, switched off.

Which one has which effect, the faults know. Fail points exist only with `enableTestCommands=1`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Literal

from clusters.guard import FailPointOff, Undo
from clusters.wire.connection import CommandFailed
from faults.direct import ANSWER, Direct

Proof = Literal["entered", "on"]
"""What must be seen of a fail point: that something ran into it, or the server's word that it is on."""
POLL = 0.1


class FailPoint:
    """One fail point on one server (`address:port`).

    `mode` as configureFailPoint takes it; `patience` the seconds that switching it off may take, for it waits for what
    is held there and may not be interrupted (measured on 6.0.5: blockConnection of failCommand).
    """

    def __init__(
        self,
        host: str,
        name: str,
        conditions: Mapping[str, Any] | None = None,
        *,
        mode: str | Mapping[str, Any] = "alwaysOn",
        patience: float = ANSWER,
    ) -> None:
        self.name = name
        self._conditions = dict(conditions or {})
        self._mode = mode
        self._patience = patience
        self._server = Direct(host)
        self._before: int | None = None

    def __str__(self) -> str:
        return f"fail point {self.name}"

    async def obstacle(self) -> str | None:
        reply = await self._server.command({"getParameter": 1, "enableTestCommands": 1})
        if not reply["enableTestCommands"]:
            return "runs without enableTestCommands=1 and so has no fail points: start it with that parameter"
        try:
            on = await self.is_on()
        except CommandFailed:
            return f"has no fail point {self.name}: this server version does not know it"
        return f"has {self} on already, and not by this run: switch it off first" if on else None

    def undo(self) -> Undo:
        return FailPointOff(self._server.host, self.name)

    async def on(self) -> None:
        command: dict[str, Any] = {"configureFailPoint": self.name, "mode": self._mode}
        if self._conditions:
            command["data"] = self._conditions
        # The count goes on from earlier uses, and the reply has it as it was before this one (measured on 6.0.5).
        self._before = int((await self._server.command(command))["count"])

    async def is_on(self) -> bool:
        return bool((await self._read())["mode"])

    async def entered(self) -> int:
        """How often it was entered since it was switched on here. Some count each look at them, not each operation."""
        state = await self._read()
        return int(state["timesEntered"]) - self._before if state["mode"] and self._before is not None else 0

    async def run_into(self, deadline: float, *, proof: Proof) -> int | None:
        """How often it was entered once it was at all, or once it is on where that is `proof` enough; None where that
        is not so within `deadline` seconds, or it is off again."""
        end = time.monotonic() + deadline
        while time.monotonic() < end and await self.is_on():
            times = await self.entered()
            if times > 0 or proof == "on":
                return times
            await asyncio.sleep(POLL)  # the server tells nobody who runs into it
        return None

    async def taken(self) -> str | None:
        times = await self.entered()
        return f"{self} entered {times} times" if times > 0 else None

    async def off(self) -> None:
        await self._server.command({"configureFailPoint": self.name, "mode": "off"}, deadline=self._patience)

    def close(self) -> None:
        self._server.close()

    async def _read(self) -> Mapping[str, Any]:
        parameter = f"failpoint.{self.name}"
        state: Mapping[str, Any] = (await self._server.command({"getParameter": 1, parameter: 1}))[parameter]
        return state
