"""Topologies are plain data that say the right thing about votes, priorities and sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters import commandline
from clusters.topology import MAX_VOTERS, Role, Settings, replica_set, sharded_cluster, single_replica_set


@pytest.mark.parametrize(("size", "voters"), [(1, 1), (3, 3), (7, 7), (8, 7), (18, 7)])
def test_members_past_the_seventh_have_no_vote_and_cannot_be_elected(size: int, voters: int) -> None:
    members = replica_set("shard0", Role.SHARD, size).members
    assert [member.votes for member in members] == [1] * voters + [0] * (size - voters)
    assert all(member.priority == 0 for member in members[MAX_VOTERS:])


def test_the_first_member_is_preferred_as_primary() -> None:
    first, *others = replica_set("shard0", Role.SHARD, 3).members
    assert all(first.priority > other.priority for other in others)


def test_a_sharded_cluster_has_config_servers_shards_and_a_router_host() -> None:
    topology = sharded_cluster(3, 2, config_members=3)
    assert [one.name for one in topology.sets()] == ["config", "shard0", "shard1", "shard2", "router"]
    assert len(list(topology.members())) == 3 + 3 * 2 + 1
    assert topology.sharded


def test_member_names_are_unique_in_a_cluster() -> None:
    names = [member.name for member in sharded_cluster(3, 5).members()]
    assert len(names) == len(set(names))


def test_a_replica_set_of_its_own_has_no_router() -> None:
    topology = single_replica_set(3)
    assert not topology.sharded
    assert topology.router_host is None


@pytest.mark.parametrize("size", [0, -1])
def test_an_empty_set_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1 member"):
        replica_set("shard0", Role.SHARD, size)


def test_a_cache_smaller_than_mongod_takes_is_asked_of_the_storage_engine() -> None:
    (spec,) = replica_set("shard0", Role.SHARD, 1).members

    def said(cache_gb: float) -> list[str]:
        settings = Settings(cache_gb=cache_gb)
        line = commandline.mongod(Path("mongod"), spec, settings, port=1, data=Path("data"), log=None)
        return [line[line.index(f"--wiredTiger{one}") + 1] for one in ("CacheSizeGB", "EngineConfigString")]

    assert said(0.0625) == ["0.25", "log=(prealloc=false,file_max=1MB),cache_size=64MB"]
    assert said(1.5) == ["1.5", "log=(prealloc=false,file_max=1MB)"]
