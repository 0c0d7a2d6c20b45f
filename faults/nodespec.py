"""Node specs: how a target is named without knowing hosts, after Jepsen's: by name, role, shard or tag.

    shard0-1            the member of that name
    primary             one primary of a shard (chosen by the seed)
    shard0/primary      the primary of that set; also secondary, secondaries, minority, majority, all, one
    tag:stall=b         members with that tag; shard0/tag:stall=b within one set

Pure: the state of the members comes in, names come out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from clusters.errors import Refused
from clusters.topology import Role


@dataclass(frozen=True, slots=True)
class NodeState:
    """A member as it is now."""

    name: str
    set_name: str
    role: Role
    primary: bool
    tags: Mapping[str, str] = field(default_factory=dict)


Choice = Callable[[Sequence[NodeState], random.Random], list[NodeState]]


def _one(nodes: Sequence[NodeState], source: random.Random) -> list[NodeState]:
    return [source.choice(nodes)] if nodes else []


def _some(nodes: Sequence[NodeState], source: random.Random, count: int) -> list[NodeState]:
    return source.sample(list(nodes), count)


CHOICES: dict[str, Choice] = {
    "all": lambda nodes, _: list(nodes),
    "one": _one,
    "primary": lambda nodes, source: _one([node for node in nodes if node.primary], source),
    "primaries": lambda nodes, _: [node for node in nodes if node.primary],
    "secondary": lambda nodes, source: _one([node for node in nodes if not node.primary], source),
    "secondaries": lambda nodes, _: [node for node in nodes if not node.primary],
    "minority": lambda nodes, source: _some(nodes, source, (len(nodes) - 1) // 2),
    "majority": lambda nodes, source: _some(nodes, source, len(nodes) // 2 + 1),
}


def resolve(spec: str, nodes: Sequence[NodeState], source: random.Random) -> list[str]:
    """The names of the members that `spec` means. Raises Refused where it means none."""
    named = [node.name for node in nodes if node.name == spec]
    if named:
        return named
    within, _, what = spec.rpartition("/")
    chosen: Sequence[NodeState] = [node for node in nodes if node.role.holds_data]
    if within:
        chosen = [node for node in nodes if node.set_name == within]
        if not chosen:
            sets = sorted({node.set_name for node in nodes})
            raise Refused(f"node spec {spec!r}: there is no set {within!r}; expected one of {', '.join(sets)}")
    if what.startswith("tag:"):
        key, equals, value = what.removeprefix("tag:").partition("=")
        if not equals:
            raise Refused(f"node spec {spec!r}: expected tag:KEY=VALUE")
        found = [node for node in chosen if node.tags.get(key) == value]
    elif what in CHOICES:
        found = CHOICES[what](chosen, source)
    else:
        raise Refused(
            f"node spec {spec!r}: expected a member ({', '.join(node.name for node in nodes)}), "
            f"tag:KEY=VALUE or one of {', '.join(CHOICES)}, each also as SET/..."
        )
    if not found:
        raise Refused(f"node spec {spec!r} means no member of this cluster")
    return [node.name for node in found]
