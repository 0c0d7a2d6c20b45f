"""Every fault by its own name: `async with freeze(c.select("secondary")): ...`. What each does is in `faults/`.

One word for each, so that editors and type checkers know them; a test holds them against the faults there are.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import faults
from faults.base import Evidence
from harness.ground import Selection
from harness.injected import injected


class Breaking:
    """A fault, to be called with what it is to strike."""

    def __init__(self, name: str) -> None:
        self.name = name
        kind = faults.by_name(name)
        self.__doc__ = f"{faults.summary(name)} On {kind.needs}; proven by {kind.proven_by}."

    def __call__(
        self, on: Selection, /, *, watched: str | None = None, **options: Any
    ) -> AbstractAsyncContextManager[list[Evidence]]:
        """It acts within the block, proven at its beginning and healed at its end; gives the proofs, one for each node.

        `watched`: DATABASE.COLLECTION for those faults that strike one namespace alone. `options` as
        `mongofault faults` lists them. Raises Refused where nothing was broken, Unproven, and HealFailed at the end
        of the block.
        """
        return injected(on.ground, self.name, on.spec, options=options, namespace=watched, seed=on.seed)

    def __repr__(self) -> str:
        return f"<fault {self.name}>"


bandwidth = Breaking("bandwidth")
blackhole = Breaking("blackhole")
cpu_limit = Breaking("cpu-limit")
cut = Breaking("cut")
fail_command = Breaking("fail-command")
fail_point = Breaking("fail-point")
freeze = Breaking("freeze")
half_open = Breaking("half-open")
hang_after_command = Breaking("hang-after-command")
hang_in_yield = Breaking("hang-in-yield")
hide_member = Breaking("hide-member")
isolate = Breaking("isolate")
isolate_primary = Breaking("isolate-primary")
kill = Breaking("kill")
latency = Breaking("latency")
lock_wait = Breaking("lock-wait")
memory_limit = Breaking("memory-limit")
move_tags = Breaking("move-tags")
no_tickets = Breaking("no-tickets")
packet_loss = Breaking("packet-loss")
partition = Breaking("partition")
pause_replication = Breaking("pause-replication")
refuse = Breaking("refuse")
remove_member = Breaking("remove-member")
restart = Breaking("restart")
slow_apply = Breaking("slow-apply")
step_down = Breaking("step-down")
stutter = Breaking("stutter")
swallow = Breaking("swallow")
terminate = Breaking("terminate")
write_conflict = Breaking("write-conflict")
