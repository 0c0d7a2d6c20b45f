"""Who looks up the post-images of updateLookup streams, by server version and router, in the words that results use."""

from __future__ import annotations

from typing import Final

from clusters import quirks

NOT_ROUTED: Final = "no shard-side routed lookup; its mongos not tested"
"""Of versions whose shards read a post-image where the stream runs. Their mongos can look up itself, so this says
nothing of the safety of such a cluster."""

ROUTED_BY_SHARD: Final = "routed by the shard"

SHARDS_LOOK_UP: Final = (8, 0)
"""From this line on shards do it themselves; of 6.0 the stand-in asks for it, and a mongos does it in their place."""


def lookup_path(version: str, router: str) -> str:
    """`router` as `ServerInfo` has it."""
    if router == "none":
        return "local: a plain replica set"
    if router == "mongos" and quirks.major_of(version) < SHARDS_LOOK_UP:
        return "routed by the mongos"
    return ROUTED_BY_SHARD if quirks.of_version(version).routed_lookup else NOT_ROUTED
