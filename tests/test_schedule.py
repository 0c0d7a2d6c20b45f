"""Schedules of faults: the seed fixes them, no set loses its majority, and they can be stored and read again."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.errors import Refused
from clusters.topology import Topology, sharded_cluster
from harness.schedule import JITTER, LEAST_HOLD, REST, Planned, Wish, of_plain, plan, pulses

NAMES = ["freeze", "hang-after-command", "pause-replication"]
TWO_BY_THREE = sharded_cluster(2, 3)


def wish(seed: int = 7, **changes: Any) -> Wish:
    return Wish(**{"seed": seed, "duration": 300.0, "every": 20.0, "faults": NAMES, **changes})


def most_at_once(schedule: list[Planned], set_name: str) -> int:
    spans = [(one.at, one.at + one.hold) for one in schedule if one.on.startswith(f"{set_name}/")]
    return max((sum(low <= at < high for low, high in spans) for at, _ in spans), default=0)


def test_the_same_seed_and_topology_give_the_same_schedule_and_another_seed_another() -> None:
    assert plan(wish(), TWO_BY_THREE) == plan(wish(), sharded_cluster(2, 3))
    assert plan(wish(), TWO_BY_THREE) != plan(wish(8), TWO_BY_THREE)


def test_every_fault_is_aimed_at_what_it_is_for() -> None:
    schedule = plan(wish(duration=3000.0), TWO_BY_THREE)
    assert {one.fault for one in schedule} == set(NAMES)
    aims = {one.fault: {each.on.partition("/")[2] for each in schedule if each.fault == one.fault} for one in schedule}
    assert aims == {"freeze": {"any"}, "hang-after-command": {"any"}, "pause-replication": {"secondary"}}
    assert {one.on.partition("/")[0] for one in schedule} == {"shard0", "shard1"}


@settings(deadline=None)
@given(
    seed=st.integers(0, 1 << 31),
    duration=st.floats(30, 2000),
    every=st.floats(2, 60),
    shards=st.integers(1, 3),
    members=st.sampled_from([3, 4, 5, 7]),
)
def test_no_set_ever_loses_its_majority_and_all_is_over_in_time(
    seed: int, duration: float, every: float, shards: int, members: int
) -> None:
    topology = sharded_cluster(shards, members)
    try:
        schedule = plan(wish(seed, duration=duration, every=every), topology)
    except Refused:
        assert duration < 3 * every
        return
    for one in topology.shards:
        assert most_at_once(schedule, one.name) <= (members - 1) // 2
    assert [one.number for one in schedule] == list(range(1, len(schedule) + 1))
    assert all(one.at + one.hold <= duration + 0.01 and one.hold >= LEAST_HOLD for one in schedule)


def test_a_set_is_left_alone_for_a_while_after_a_fault() -> None:
    schedule = plan(wish(every=5.0, duration=1000.0), TWO_BY_THREE)
    for set_name in ("shard0", "shard1"):
        of_set = [one for one in schedule if one.on.startswith(set_name)]
        gaps = [later.at - (one.at + one.hold) for one, later in itertools.pairwise(of_set)]
        assert min(gaps) >= REST - 0.01


def test_faults_overlap_where_the_sets_allow_it() -> None:
    schedule = plan(wish(duration=2000.0), TWO_BY_THREE)
    assert any(later.at < one.at + one.hold for one, later in itertools.pairwise(schedule))


def test_beyond_the_majority_more_of_a_set_is_broken_at_once() -> None:
    schedule = plan(wish(every=4.0, duration=2000.0, keep_majority=False), sharded_cluster(1, 3))
    assert most_at_once(schedule, "shard0") >= 2


def test_faults_begin_about_as_often_as_is_asked() -> None:
    schedule = plan(wish(duration=2000.0), sharded_cluster(3, 7))
    assert len(schedule) >= 90
    assert all(one.at % 20 <= JITTER * 20 for one in schedule)


def test_pulses_are_fixed_by_the_seed() -> None:
    assert pulses(7, 5.0, 50.0, "freeze", "rs0/primary") == pulses(7, 5.0, 50.0, "freeze", "rs0/primary")
    assert pulses(7, 5.0, 50.0, "freeze", "rs0/primary") != pulses(8, 5.0, 50.0, "freeze", "rs0/primary")


@given(seed=st.integers(0, 1 << 31), every=st.floats(0.5, 60), duration=st.floats(0, 600))
def test_pulses_come_one_after_the_other_so_often_and_are_over_in_time(
    seed: int, every: float, duration: float
) -> None:
    schedule = pulses(seed, every, duration, "freeze", "rs0/primary")
    assert len(schedule) == int(duration / every)
    ends = [one.at + one.hold for one in schedule]
    assert all(later.at >= end - 0.01 for end, later in zip(ends, schedule[1:], strict=False))
    assert all(end <= duration + 0.01 for end in ends)
    assert all(one.hold > 0 for one in schedule)


def test_a_schedule_is_read_as_it_was_stored() -> None:
    schedule = plan(wish(), TWO_BY_THREE)
    assert [of_plain(json.loads(json.dumps(one.plain()))) for one in schedule] == schedule


@pytest.mark.parametrize(
    ("changes", "topology", "said"),
    [
        ({"faults": []}, TWO_BY_THREE, "expected at least one fault"),
        ({"faults": ["earthquake"]}, TWO_BY_THREE, "unknown fault 'earthquake'"),
        ({"duration": 1.0}, TWO_BY_THREE, "there is no room for a fault"),
        ({}, sharded_cluster(2, 1), "sets of at least 3 members"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes: dict[str, Any], topology: Topology, said: str) -> None:
    with pytest.raises(Refused, match=said):
        plan(wish(**changes), topology)


def test_a_stored_schedule_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be read"):
        of_plain({"number": 1})
