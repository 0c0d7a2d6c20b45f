"""Which member gets which partitions: by ranges, stickily, and step by step."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.drivers.kafka import TopicPartition
from harness.drivers.kafka.assignors import cooperative, in_ranges, sticky
from kafka_parts import at

RANGES = [
    (["a"], 3, {"a": [0, 1, 2]}),
    (["b", "a"], 4, {"a": [0, 1], "b": [2, 3]}),
    (["a", "b"], 3, {"a": [0, 1], "b": [2]}),
    (["a", "b", "c"], 2, {"a": [0], "b": [1], "c": []}),
]


@pytest.mark.parametrize(("members", "partitions", "wanted"), RANGES)
def test_ranges_are_even_and_the_first_take_what_is_left_over(
    members: list[str], partitions: int, wanted: dict[str, list[int]]
) -> None:
    found = in_ranges(members, [at(number) for number in range(partitions)])
    assert {name: [one.partition for one in gets] for name, gets in found.items()} == wanted


@st.composite
def holdings(draw: st.DrawFn) -> tuple[dict[str, list[TopicPartition]], list[TopicPartition]]:
    partitions = [at(number) for number in range(draw(st.integers(0, 6)))]
    members = list("abcd")[: draw(st.integers(1, 4))]
    owned: dict[str, list[TopicPartition]] = {name: [] for name in members}
    for one in partitions:
        holder = draw(st.sampled_from([*members, None]))
        if holder is not None:
            owned[holder].append(one)
    return owned, partitions


@given(holdings())
def test_a_sticky_assignment_is_even_and_moves_as_few_partitions_as_any_even_one(
    drawn: tuple[dict[str, list[TopicPartition]], list[TopicPartition]],
) -> None:
    owned, partitions = drawn
    found = sticky(owned, partitions)
    assert sorted(one for gets in found.values() for one in gets) == partitions
    sizes = sorted(len(gets) for gets in found.values())
    assert sizes[-1] - sizes[0] <= 1
    kept = sum(len(set(found[name]) & set(owned[name])) for name in owned)
    base, larger = divmod(len(partitions), len(owned))
    best = max(
        sum(min(len(owned[name]), base + (name in takes)) for name in owned)
        for takes in itertools.combinations(owned, larger)
    )
    assert kept == best


@given(holdings())
def test_cooperative_steps_give_nobody_what_another_still_holds_and_end_at_an_even_assignment(
    drawn: tuple[dict[str, list[TopicPartition]], list[TopicPartition]],
) -> None:
    owned, partitions = drawn
    first = cooperative(owned, partitions)
    for name, gets in first.items():
        assert not any(set(gets) & set(held) for other, held in owned.items() if other != name)
    second = cooperative(first, partitions)
    assert second == sticky(first, partitions)
