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
] + [
    NodeState("config-0", "config", Role.CONFIG, primary=True),
    NodeState("router-0", "router", Role.ROUTER_HOST, primary=True),
    NodeState("router", "", Role.ROUTER, primary=False),
]


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
        ("tag:zone=a/shard1/secondary", ["shard1-2"]),
        ("shard1", ["shard1-0", "shard1-1", "shard1-2"]),
        ("shard:shard1", ["shard1-0", "shard1-1", "shard1-2"]),
        ("shard:shard0/primary", ["shard0-0"]),
        ("config", ["config-0"]),
        ("router", ["router"]),
        ("router-0", ["router-0"]),
        ("shard0/primary,shard1-2,config", ["shard0-0", "shard1-2", "config-0"]),
        ("shard0-1, shard0/secondaries", ["shard0-1", "shard0-2"]),
    ],
)
def test_a_spec_means_these_members(spec: str, wanted: list[str]) -> None:
    assert names(spec) == wanted


@pytest.mark.parametrize(
    ("spec", "count"),
    [("shard0/minority", 1), ("shard0/majority", 2), ("shard0/all", 3), ("all", 6), ("any", 1), ("secondary", 1)],
)
def test_a_share_of_a_set_has_the_right_size(spec: str, count: int) -> None:
    assert len(set(names(spec))) == count


@pytest.mark.parametrize(
    ("spec", "of_each"), [("minority", 1), ("majority", 2), ("shard0/minority,shard1/minority", 1)]
)
def test_a_share_is_one_of_each_set(spec: str, of_each: int) -> None:
    for seed in range(20):
        found = names(spec, seed)
        assert [sum(name.startswith(shard) for name in found) for shard in ("shard0", "shard1")] == [of_each] * 2


@pytest.mark.parametrize("spec", ["all", "primaries", "any", "majority"])
def test_config_servers_and_the_router_are_never_meant_unless_named(spec: str) -> None:
    for seed in range(20):
        assert all(name.startswith("shard") for name in names(spec, seed))


def test_the_seed_decides_and_decides_the_same_again() -> None:
    chosen = {seed: names("secondary", seed) for seed in range(20)}
    assert chosen == {seed: names("secondary", seed) for seed in range(20)}
    assert len({tuple(one) for one in chosen.values()}) > 1
    assert all(one[0][-1] != "0" for one in chosen.values())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nobody", "found 'nobody', expected a node .shard0-0, "),
        ("shard9/primary", "found 'shard9', expected a node"),
        ("shard:shard9/primary", "there is no set 'shard9'"),
        ("shard0/nobody", "found 'nobody', expected a node"),
        ("shard0/shard1", "means no member"),
        ("shard0-1,", "found '', expected a node"),
        ("tag:zone", "expected tag:KEY=VALUE"),
        ("tag:zone=c", "means no member"),
    ],
)
def test_a_spec_that_means_nothing_is_refused(spec: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        names(spec)
