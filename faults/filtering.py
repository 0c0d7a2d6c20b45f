"""What the faults share that drop packets: a chain of rules of their own in the namespace of a member's container.

The kernel counts what each rule has dropped.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from clusters.compose import netns
from clusters.compose.container import ContainerMember
from clusters.guard import RemoveChain, Undo
from faults.base import Site
from faults.namespace import NamespaceFault

HOOKS: Final = ("INPUT", "OUTPUT")
LINE: Final = re.compile(r"\[(\d+):\d+\] -A (\S+)(.*)")


class FilteringFault(NamespaceFault):
    """The classes made from it have `rules`."""

    tools: ClassVar[tuple[str, ...]] = ("ip", netns.SAVED, netns.RESTORE[0])
    healed_by: ClassVar[str] = "its chain of rules is removed from the container's network namespace"

    def __init__(self, site: Site, options: Any = None) -> None:
        super().__init__(site, options)
        self.chain = f"{netns.CHAIN}{secrets.token_hex(4)}"

    def rules(self) -> Sequence[str]:
        """What each rule matches, as iptables(8) has it, for packets that come in and for those that go out."""
        raise NotImplementedError

    def trial(self) -> tuple[Sequence[str], str]:
        return netns.RESTORE, netns.filtering(self._lines())

    def undo(self) -> Sequence[Undo]:
        assert isinstance(self.target, ContainerMember)
        return [RemoveChain(self.target.container, self.chain)]

    def put(self) -> None:
        netns.restore(self.pid, self._lines())

    def there(self) -> bool:
        lines = netns.rules(self.pid)
        leading = [line for line in lines if line.endswith(f"-j {self.chain}")]
        return len(leading) == len(HOOKS) and len(self._counts(lines)) == len(self.rules()) + 1

    def counted(self) -> tuple[int, list[int]]:
        """Packets that came through the chain, and those that each rule dropped. Raises ToolFailed."""
        seen, *dropped = self._counts(netns.rules(self.pid)) or [0]
        return seen, dropped

    def _counts(self, lines: Sequence[str]) -> list[int]:
        matches = [found for line in lines if (found := LINE.match(line))]
        return [int(found[1]) for found in matches if found[2] == self.chain]

    def _lines(self) -> list[str]:
        inside = [f"-A {self.chain}", *(f"-A {self.chain} {one} -j DROP" for one in self.rules())]
        return [f":{self.chain} - [0:0]", *inside, *(f"-I {hook} -j {self.chain}" for hook in HOOKS)]
