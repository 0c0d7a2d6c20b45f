"""Node specs mean what they say, choose by the seed, and refuse in one line what means nothing."""

from __future__ import annotations

import random

import pytest

from clusters.errors import Refused
from clusters.topology import Role
from faults.nodespec import NodeState, resolve

NODES = [
    NodeState(f"{name}-{index}", name, Role.SHARD, primary=index == 0, tags={"zone": "ab"[index % 2]})
    for name in ("shard0", "shard1")
    for index in range(3)
] + [NodeState("config-0", "config", Role.CONFIG, primary=True)]


def names(spec: str, seed: int = 1) -> list[str]:
    return resolve(spec, NODES, random.Random(seed))


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("shard1-2", ["shard1-2"]),
        ("config-0", ["config-0"]),
        ("primaries", ["shard0-0", "shard1-0"]),
        ("shard0/primary", ["shard0-0"]),
        ("config/primary", ["config-0"]),
        ("shard1/secondaries", ["shard1-1", "shard1-2"]),
        ("tag:zone=b", ["shard0-1", "shard1-1"]),
        ("shard1/tag:zone=a", ["shard1-0", "shard1-2"]),
    ],
)
def test_a_spec_means_these_members(spec: str, wanted: list[str]) -> None:
    assert names(spec) == wanted


@pytest.mark.parametrize(
    ("spec", "count"), [("shard0/minority", 1), ("shard0/majority", 2), ("shard0/all", 3), ("all", 6)]
)
def test_a_share_of_a_set_has_the_right_size(spec: str, count: int) -> None:
    assert len(set(names(spec))) == count


def test_config_servers_are_never_meant_unless_named() -> None:
    assert "config-0" not in names("all")


def test_the_seed_decides_and_decides_the_same_again() -> None:
    chosen = {seed: names("secondary", seed) for seed in range(20)}
    assert chosen == {seed: names("secondary", seed) for seed in range(20)}
    assert len({tuple(one) for one in chosen.values()}) > 1
    assert all(one[0][-1] != "0" for one in chosen.values())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nobody", "expected a member"),
        ("shard9/primary", "there is no set 'shard9'"),
        ("tag:zone", "expected tag:KEY=VALUE"),
        ("tag:zone=c", "means no member"),
    ],
)
def test_a_spec_that_means_nothing_is_refused(spec: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        names(spec)
