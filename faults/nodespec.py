"""Node specs: how targets are named without knowing hosts, after Jepsen's.

    shard0-1                 the member of that name
    primary, secondary, any  one such member, chosen by the seed
    all                      every member that holds data; primaries, secondaries
    minority, majority       so many of each set, chosen by the seed
    shard0, shard:shard0     the members of that set; config: the config servers
    router                   the router's process
    tag:zone=b               the members with that tag

A `/` narrows (`shard0/secondary`, `tag:zone=b/any`), a `,` adds (`shard0/primary,shard1-2`). Pure: the state of the
members comes in, names come out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from clusters.errors import Refused
from clusters.topology import Role


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as it is now. The router is one of role ROUTER, in no set."""

    name: str
    set_name: str
    role: Role
    primary: bool
    tags: Mapping[str, str] = field(default_factory=dict)


Choice = Callable[[Sequence[NodeState], random.Random], list[NodeState]]


def _one(nodes: Sequence[NodeState], source: random.Random) -> list[NodeState]:
    return [source.choice(nodes)] if nodes else []


def _of_each_set(nodes: Sequence[NodeState], source: random.Random, count: Callable[[int], int]) -> list[NodeState]:
    """As many of each set as `count` makes of its size: half of all might be the whole of one set."""
    sets: dict[str, list[NodeState]] = {}
    for node in nodes:
        sets.setdefault(node.set_name, []).append(node)
    return [one for members in sets.values() for one in source.sample(members, count(len(members)))]


CHOICES: dict[str, Choice] = {
    "all": lambda nodes, _: list(nodes),
    "any": _one,
    "one": _one,
    "primary": lambda nodes, source: _one([node for node in nodes if node.primary], source),
    "primaries": lambda nodes, _: [node for node in nodes if node.primary],
    "secondary": lambda nodes, source: _one([node for node in nodes if not node.primary], source),
    "secondaries": lambda nodes, _: [node for node in nodes if not node.primary],
    "minority": lambda nodes, source: _of_each_set(nodes, source, lambda size: (size - 1) // 2),
    "majority": lambda nodes, source: _of_each_set(nodes, source, lambda size: size // 2 + 1),
}


def resolve(spec: str, nodes: Sequence[NodeState], source: random.Random) -> list[str]:
    """The names of the nodes that `spec` means, each once. Raises Refused where it means none."""
    found = [name for part in spec.split(",") for name in _part(part.strip(), nodes, source)]
    return list(dict.fromkeys(found))


def _part(spec: str, nodes: Sequence[NodeState], source: random.Random) -> list[str]:
    first, *others = spec.split("/")
    if any(node.name == first or node.set_name == first for node in nodes) or first.startswith("shard:"):
        found = _narrowed(first, spec, nodes, nodes, source)
    else:
        # Config servers, the router and its host are meant only where they are named.
        found = _narrowed(first, spec, [node for node in nodes if node.role.holds_data], nodes, source)
    for one in others:
        found = _narrowed(one, spec, found, nodes, source)
    if not found:
        raise Refused(f"node spec {spec!r} means no member of this cluster")
    return [node.name for node in found]


def _narrowed(
    what: str, spec: str, chosen: Sequence[NodeState], nodes: Sequence[NodeState], source: random.Random
) -> list[NodeState]:
    """Those of `chosen` that `what` means, a part of `spec`."""
    # Before the sets: the router's host is the one member of a set that is called as the router is.
    if any(node.name == what for node in nodes):
        return [node for node in chosen if node.name == what]
    sets = sorted({node.set_name for node in nodes if node.set_name})
    named = what.removeprefix("shard:")
    if named in sets:
        return [node for node in chosen if node.set_name == named]
    if what.startswith("shard:"):
        raise Refused(f"node spec {spec!r}: there is no set {named!r}; expected one of {', '.join(sets)}")
    if what.startswith("tag:"):
        key, equals, value = what.removeprefix("tag:").partition("=")
        if not equals:
            raise Refused(f"node spec {spec!r}: expected tag:KEY=VALUE")
        return [node for node in chosen if node.tags.get(key) == value]
    if what in CHOICES:
        return CHOICES[what](chosen, source)
    raise Refused(
        f"node spec {spec!r}: found {what!r}, expected a node ({', '.join(node.name for node in nodes)}), "
        f"a set ({', '.join(sets)}), tag:KEY=VALUE or one of {', '.join(CHOICES)}; '/' narrows, ',' adds"
    )
