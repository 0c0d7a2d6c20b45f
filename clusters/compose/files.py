"""The files that are checked in under `compose/`, by their names. Rendered by `mongofault compose render`."""

from __future__ import annotations

from clusters.compose import overrides, render
from clusters.topology import sharded_cluster, single_replica_set

WARNING = "Rendered by 'mongofault compose render'; not to be edited. How to use it: README.md"
TOPOLOGIES = {
    "sharded": (
        sharded_cluster(2, 3, config_members=3, router_host=False),
        "three config servers, two shards of three",
    ),
    "replicaset": (single_replica_set(3), "a replica set of three, members named by address"),
}


def rendered() -> dict[str, str]:
    """The text of each file, by its name."""
    texts: dict[str, str] = {}
    for name, (topology, what) in TOPOLOGIES.items():
        for suffix, document, meaning in (
            ("", render.compose(topology), f"{what[0].upper()}{what[1:]}."),
            ("-mongosh", overrides.mongosh(topology), f"Over {name}.yml: health checks and initiation by mongosh."),
            ("-auth", overrides.authenticated(topology), f"Over {name}.yml: a key file, and a user."),
        ):
            texts[f"{name}{suffix}.yml"] = render.dump(document, heading=f"{meaning}\n{WARNING}")
    return texts
