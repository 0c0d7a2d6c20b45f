"""The merge of shard cursors: what may be given out when, and where a client resumes. No cluster."""

from __future__ import annotations

from itertools import pairwise

import pytest
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from clusters.router.merge import Event, Merge, Token, key

HUGE = 1 << 30
LAST = 10**6


def token(time: int) -> Token:
    return {"_data": f"{time:012X}"}


def event(time: int) -> Event:
    return Event(key(token(time)), token(time), str(time).encode())


def merge(*shards: str) -> Merge:
    return Merge({name: token(0) for name in shards})


def taken(one: Merge, limit: int = 100) -> list[int]:
    return [int(document) for document in one.take(limit, HUGE)]


def test_an_event_waits_until_every_other_shard_has_promised_past_it() -> None:
    one = merge("a", "b")
    one.add("a", [event(10)], token(10))
    assert taken(one) == []
    one.add("b", [], token(9))
    assert taken(one) == []
    one.add("b", [], token(11))
    assert taken(one) == [10]


def test_only_shards_without_a_waiting_event_are_asked_for_more() -> None:
    one = merge("a", "b")
    assert one.starving() == ["a", "b"]
    one.add("a", [event(10)], token(10))
    assert one.starving() == ["b"]
    one.add("b", [], token(11))
    one.take(1, HUGE)
    assert one.starving() == ["a", "b"]


def test_the_limit_leaves_the_rest_for_the_next_batch_and_the_token_at_the_last_event_given() -> None:
    one = merge("a")
    one.add("a", [event(1), event(2), event(3)], token(5))
    assert taken(one, 2) == [1, 2]
    assert one.resume_token() == token(2)
    assert taken(one) == [3]
    assert one.resume_token() == token(5)


def test_a_batch_stops_before_its_byte_limit_but_always_has_one_event() -> None:
    one = merge("a")
    one.add("a", [event(1000), event(1001), event(1002)], token(1002))
    assert one.take(100, 9) == [b"1000", b"1001"]
    one.add("a", [event(1003)], token(1003))
    assert one.take(100, 1) == [b"1002"]


def test_on_an_empty_batch_the_token_is_the_smallest_promise() -> None:
    one = merge("a", "b")
    one.add("a", [event(10)], token(10))
    one.add("b", [], token(7))
    assert taken(one) == []
    assert one.resume_token() == token(7)


def test_what_has_arrived_and_was_not_taken_lies_behind_the_token() -> None:
    one = merge("a")
    one.add("a", [event(10)], token(10))
    assert one.resume_token() == token(0)


def test_a_promise_never_goes_back() -> None:
    # A member that is behind answers with an older time than the start it was given.
    one = Merge({"a": token(20), "b": token(20)})
    one.add("a", [], token(5))
    assert one.resume_token() == token(20)


def test_a_shard_that_ends_ends_the_stream_after_everything_before_it() -> None:
    one = merge("a", "b")
    one.add("a", [event(10), event(11)], token(11), ended=True)
    one.add("b", [event(5), event(12)], token(12))
    assert not one.ended
    assert taken(one) == [5, 10, 11]
    assert one.ended
    assert one.resume_token() == token(11)
    assert taken(one) == []


def test_the_end_is_known_with_the_last_event_even_where_the_limit_is_reached() -> None:
    one = merge("a")
    one.add("a", [event(10)], token(10), ended=True)
    assert taken(one, 1) == [10]
    assert one.ended


def test_an_invalidate_that_the_pipeline_filtered_ends_the_stream_where_it_stood() -> None:
    one = merge("a", "b")
    one.add("a", [event(3)], token(10), ended=True)
    one.add("b", [event(5), event(12)], token(12))
    assert taken(one) == [3, 5]
    assert one.ended
    assert one.resume_token() == token(10)


def test_a_shard_that_joins_is_waited_for_like_the_others() -> None:
    one = merge("a")
    one.add("a", [event(10), event(20)], token(25))
    assert taken(one, 1) == [10]
    one.join("b", one.resume_token())
    assert not one.ready()
    assert taken(one) == []
    assert one.starving() == ["b"]
    one.add("b", [event(15)], token(30))
    assert one.ready()
    assert taken(one) == [15, 20]


def test_nothing_that_can_go_out_is_later_than_the_horizon() -> None:
    # 0x82, seconds, increment; then what tells events of one time apart.
    early, late = ({"_data": f"82{seconds:08X}{7:08X}2B022C"} for seconds in (100, 200))
    one = Merge({"a": early, "b": late})
    assert one.horizon() == Timestamp(100, 7)
    one.add("a", [], {"_data": f"82{300:08X}{1:08X}2B0229"})
    assert one.horizon() == Timestamp(200, 7)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[str, int, int]]]:
    """What each shard has in its oplog, and an interleaving of arrivals and takes."""
    shards = draw(st.integers(1, 4))
    times = draw(st.lists(st.integers(1, 200), unique=True, max_size=40))
    oplogs: list[list[int]] = [[] for _ in range(shards)]
    for time in sorted(times):
        oplogs[draw(st.integers(0, shards - 1))].append(2 * time)
    steps = st.tuples(st.sampled_from(["arrive", "take"]), st.integers(0, shards - 1), st.integers(0, 5))
    return oplogs, draw(st.lists(steps, max_size=60))


@given(histories(), st.data())
def test_every_interleaving_gives_each_event_once_in_order_and_only_within_its_promise(
    history: tuple[list[list[int]], list[tuple[str, int, int]]], data: st.DataObject
) -> None:
    oplogs, steps = history
    every = sorted(time for oplog in oplogs for time in oplog)
    names = [str(index) for index in range(len(oplogs))]
    one = merge(*names)
    arrived = [0] * len(oplogs)
    given_out: list[int] = []
    tokens = [key(one.resume_token())]

    def arrive(shard: int, count: int, *, all_of_it: bool = False) -> None:
        batch = oplogs[shard][arrived[shard] :][:count]
        arrived[shard] += len(batch)
        rest = oplogs[shard][arrived[shard] :]
        # Odd times are high-water marks: anything from the batch's last event to just before the next one.
        low = batch[-1] if batch else (oplogs[shard][arrived[shard] - 1] if arrived[shard] else 0)
        high = rest[0] - 1 if rest else LAST
        promise = LAST if all_of_it else data.draw(st.integers(low, min(high, 500)))
        one.add(names[shard], [event(time) for time in batch], token(promise))

    def take(limit: int) -> None:
        batch = taken(one, limit)
        outstanding = [oplog[done] for oplog, done in zip(oplogs, arrived, strict=True) if done < len(oplog)]
        assert all(time < min(outstanding, default=LAST) for time in batch)
        given_out.extend(batch)
        mark = int(key(one.resume_token()), 16)
        assert [time for time in every if time <= mark] == given_out  # a resume neither loses nor doubles
        tokens.append(key(one.resume_token()))

    for what, shard, count in steps:
        if what == "arrive":
            arrive(shard, count)
        else:
            take(count)
    for shard in range(len(oplogs)):
        arrive(shard, LAST, all_of_it=True)
    take(LAST)
    assert given_out == every
    assert all(before <= after for before, after in pairwise(tokens))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_events_with_the_same_token_on_several_shards_are_all_given_out(shards: int) -> None:
    # Seen on 6.0.5 where documents are written past the router: their key in the token is then _id alone.
    names = [str(index) for index in range(shards)]
    one = merge(*names)
    for name in names:
        one.add(name, [event(4)], token(4))
    assert taken(one) == [4] * shards
