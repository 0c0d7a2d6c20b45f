"""Undo records on a container's network namespace, each plain data (see `undo`): what slows, loses or stops packets.

Only what bears the name that one fault gave it is taken away. A container that has ended took it along.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from clusters.compose import engine, netns
from clusters.guard.errors import UndoFailed

PAUSE = 0.05
"""Seconds until it is tried again: the container may have ended in between."""


@dataclass(frozen=True, slots=True)
class RemoveDiscipline:
    """Take a queueing discipline, by its handle, away from a device of a container, or of this machine where that is
    None."""

    container: str | None
    device: str
    handle: str

    def undo(self, deadline: float) -> None:
        if self.container is None:
            _tried(lambda: self._remove(None), deadline)
        else:
            _in_namespace(self.container, self._remove, deadline)

    def _remove(self, pid: int | None) -> None:
        if any(one["handle"] == self.handle for one in netns.disciplines(pid, self.device)):
            netns.run(pid, "tc", "qdisc", "delete", "dev", self.device, "root", "handle", self.handle)

    def __str__(self) -> str:
        where = "this machine" if self.container is None else f"container {self.container[:12]}"
        return f"queueing discipline {self.handle} off {self.device} of {where}"


@dataclass(frozen=True, slots=True)
class RemoveChain:
    """Take a chain of packet filter rules of ours away in a container, and every rule that leads there."""

    container: str
    chain: str

    def __post_init__(self) -> None:
        if not self.chain.startswith(netns.CHAIN):
            raise ValueError(f"expected a chain {netns.CHAIN}..., found {self.chain!r}")

    def undo(self, deadline: float) -> None:
        _in_namespace(self.container, self._remove, deadline)

    def _remove(self, pid: int) -> None:
        lines = netns.run(pid, netns.SAVED, "--table", "filter").splitlines()
        if not any(line.startswith(f":{self.chain} ") for line in lines):
            return
        leading = [f"-D {line.removeprefix('-A ')}" for line in lines if line.endswith(f"-j {self.chain}")]
        netns.restore(pid, [*leading, f"-F {self.chain}", f"-X {self.chain}"])

    def __str__(self) -> str:
        return f"remove chain {self.chain} of container {self.container[:12]}"


def _in_namespace(container: str, remove: Callable[[int], None], deadline: float) -> None:
    def tried() -> None:
        if (pid := netns.process(container)) is not None:
            remove(pid)

    _tried(tried, deadline)


def _tried(remove: Callable[[], None], deadline: float) -> None:
    end = time.monotonic() + deadline
    while True:
        try:
            return remove()
        except (netns.ToolFailed, engine.EngineFailed) as error:
            if time.monotonic() + PAUSE > end:
                raise UndoFailed(str(error)) from None
        time.sleep(PAUSE)
