"""How server versions differ in what is said to them, one table for all of it. Pure data.

Measured on 4.2.6, 4.4.2, 5.0.4, 6.0.5, 6.0.24 and 6.0.27. A version past those is taken to be as the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

VersionForm = Literal["pair", "triple", "document"]
"""How a command tells a shard's version: [version, epoch], the same and the timestamp, or {t, e, v}."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """Of one release line; the defaults are those of 6.0."""

    routed_lookup: bool = True
    """Whether a shard looks a post-image up through its own router, at whichever member the read preference names.
    Below 6.0 it reads it where the stream runs, also for fellow servers."""
    cluster_commands: bool = True
    """Whether shards run `clusterFind` and its like: the router code inside a mongod."""
    feature_version: str = "6.0"
    wire_version: int = 17
    """The highest, by which drivers know what a server understands."""
    version_form: VersionForm = "document"
    ddl_on_shards: bool = True
    """Whether collections are made and dropped by `_shardsvr*` commands on the primary shard of their database, and
    not by `_configsvr*` on the config servers."""
    coll_mod_on_primary: bool = True
    """Whether `_shardsvrCollMod` on the primary shard does it for all shards; else each gets the collMod itself."""
    create_with_primary: bool = True
    """Whether `_configsvrCreateDatabase` takes a primary shard; else `_configsvrEnableSharding` does."""
    create_database: Mapping[str, bool] = field(default_factory=dict)
    """What it takes besides, for a database that is to hold sharded collections."""
    move_range: bool = True
    """`_configsvrMoveRange`, which splits as it moves; before that `_configsvrMoveChunk` of a chunk that is there."""
    snapshot_reads: bool = True
    """readConcern `snapshot` outside of transactions (manual: since 5.0)."""
    bring_up_fail_points: bool = True
    """Those of `commandline.BRING_UP_FAIL_POINTS`."""
    drivers: bool = True
    """Whether pymongo 4 talks to it: wire version 9, which came with 4.4."""


_LINES: Final = {
    (4, 2): Quirks(
        routed_lookup=False,
        cluster_commands=False,
        feature_version="4.2",
        wire_version=8,
        version_form="pair",
        ddl_on_shards=False,
        coll_mod_on_primary=False,
        create_with_primary=False,
        move_range=False,
        snapshot_reads=False,
        bring_up_fail_points=False,
        drivers=False,
    ),
    (4, 4): Quirks(
        routed_lookup=False,
        cluster_commands=False,
        feature_version="4.4",
        wire_version=9,
        version_form="pair",
        ddl_on_shards=False,
        coll_mod_on_primary=False,
        create_with_primary=False,
        move_range=False,
        snapshot_reads=False,
    ),
    (5, 0): Quirks(
        routed_lookup=False,
        cluster_commands=False,
        feature_version="5.0",
        wire_version=13,
        version_form="triple",
        coll_mod_on_primary=False,
        create_database={"enableSharding": True},
        move_range=False,
    ),
    (6, 0): Quirks(),
    (6, 1): Quirks(bring_up_fail_points=False),
}
"""By the first version of a line; a version belongs to the last line that is not past it."""


def of_line(major: tuple[int, int]) -> Quirks:
    """The quirks of a release line, `(6, 0)`. What is older than the table is taken to be as its first line."""
    known = [line for line in _LINES if line <= major] or [min(_LINES)]
    return _LINES[max(known)]


def major_of(version: str) -> tuple[int, int]:
    """`6.0.27` as the line it belongs to."""
    first, second, *_ = numbers(version)
    return first, second


def numbers(version: str) -> tuple[int, ...]:
    """`6.0.27`, or a candidate for it as `6.0.27-rc0`, to be compared."""
    return tuple(int(part) for part in version.split("-")[0].split("."))


def of_version(version: str) -> Quirks:
    """The same of `6.0.27`."""
    return of_line(major_of(version))
