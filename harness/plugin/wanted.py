"""Which cluster a test wants: by its marker, else by the project's settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from clusters.cluster import Ours
from clusters.errors import Refused
from clusters.providers import Provider
from clusters.topology import Topology, sharded_cluster, single_replica_set


@dataclass(frozen=True, slots=True)
class Wanted:
    """`shards` 0: a plain replica set. `version`: one that is installed, None the servers there are."""

    shards: int = 2
    members: int = 3
    version: str | None = None
    proxied: bool = False
    provider: Provider = "local"

    def topology(self) -> Topology:
        plain = sharded_cluster(self.shards, self.members) if self.shards else single_replica_set(self.members)
        return plain if self.version is None else plain.of_version(self.version)

    def unlike(self, cluster: Ours) -> str | None:
        """Why a cluster that is there already is not what is wanted, or None. More than is wanted will do."""
        shards = len(cluster.topology.shards) if cluster.topology.sharded else 0
        members = min(len(one.members) for one in cluster.topology.shards)
        if bool(shards) != bool(self.shards):
            return f"it is {'sharded' if shards else 'a plain replica set'}"
        if shards < self.shards:
            return f"it has {shards} shards, wanted {self.shards}"
        if members < self.members:
            return f"it has {members} members in a set, wanted {self.members}"
        if self.version is not None and not f"{cluster.server.version}.".startswith(f"{self.version}."):
            return f"it runs {cluster.server.version}, wanted {self.version}"
        if self.proxied and cluster.proxy is None:
            return "no proxy stands before its nodes"
        return None

    def __str__(self) -> str:
        shape = f"{self.shards} shards of {self.members}" if self.shards else f"a replica set of {self.members}"
        return shape + (f", {self.version}" if self.version else "") + (", proxied" if self.proxied else "")


MARKER = frozenset(one.name for one in fields(Wanted)) - {"provider"}


def wanted(defaults: Wanted, markers: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> Wanted:
    """By the markers' arguments, the outermost first. Raises Refused: one line that says what a marker takes."""
    found = defaults
    for positional, named in markers:
        takes = f"it takes {', '.join(f'{name}=..' for name in sorted(MARKER))}"
        if positional:
            raise Refused(f"@pytest.mark.mongofault({positional[0]!r}): {takes}")
        for name, value in named.items():
            if name not in MARKER:
                raise Refused(f"@pytest.mark.mongofault({name}=..): {takes}")
            found = replace(found, **{name: _checked(name, value)})
    return found


def _checked(name: str, value: Any) -> Any:
    least = {"shards": 0, "members": 1}.get(name)
    if least is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise Refused(f"@pytest.mark.mongofault({name}={value!r}): expected a whole number, {least} or more")
    if name == "proxied" and not isinstance(value, bool):
        raise Refused(f"@pytest.mark.mongofault(proxied={value!r}): expected True or False")
    if name == "version" and not (value is None or isinstance(value, str)):
        raise Refused(f"@pytest.mark.mongofault(version={value!r}): expected text, such as '6.0'")
    return value
