"""Where messages begin is known however their bytes arrive, and lost for good where they are none."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from bson_values import repeatedly
from clusters.wire.proxy.frames import BEGUN, Frames

lengths = st.lists(st.integers(16, 90), min_size=1, max_size=6)
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=10)


def stream(sizes: list[int]) -> bytes:
    return b"".join(struct.pack("<i", size) + b"\xff" * (size - 4) for size in sizes)


def pieces(whole: bytes, at: list[int]) -> list[bytes]:
    found = []
    while whole:
        for cut in at:
            if whole:
                found.append(whole[:cut])
                whole = whole[cut:]
    return found


@repeatedly
@given(lengths, cuts)
def test_between_two_messages_and_only_there_nothing_is_left(sizes: list[int], at: list[int]) -> None:
    ends, total = set(), 0
    for size in sizes:
        total += size
        ends.add(total)
    frames, seen = Frames(), 0
    for piece in pieces(stream(sizes), at):
        frames.see(piece)
        seen += len(piece)
        assert (frames.left == 0) is (seen in ends)
        if frames.left not in (0, BEGUN):
            assert seen + frames.left in ends
    assert not frames.lost


@repeatedly
@given(lengths, cuts, st.integers(0, 400))
def test_from_any_place_the_rest_of_a_message_ends_where_the_next_one_begins(
    sizes: list[int], at: list[int], start: int
) -> None:
    whole = stream(sizes)
    start %= len(whole)
    frames = Frames()
    frames.see(whole[:start])
    took = 0
    for piece in pieces(whole[start:], at):
        if not frames.left:
            break
        rest = frames.rest(piece)
        took += rest
        if rest < len(piece):
            break
    ends = {sum(sizes[:count]) for count in range(len(sizes) + 1)}
    assert frames.left == 0
    assert start + took == min(end for end in ends if end >= start)


@repeatedly
@given(lengths, st.sampled_from((-1, 0, 15, 48_000_001)), cuts)
def test_a_length_that_no_message_has_loses_the_place_for_good(sizes: list[int], junk: int, at: list[int]) -> None:
    frames = Frames()
    for piece in pieces(stream(sizes) + struct.pack("<i", junk) + stream(sizes), at):
        frames.see(piece)
    assert frames.lost
