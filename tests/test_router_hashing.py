"""The hash of a value is the one a server computes, whatever the value's type."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient

from bson_values import repeatedly, values
from clusters.local import LocalCluster
from clusters.router.hashing import hashed

TOP = 2.0**63

numbers = st.one_of(
    st.floats(),
    st.floats(-(2.0**64), 2.0**64),
    st.sampled_from([TOP, -TOP, TOP - 1024, TOP + 2048, -TOP - 2048, 2.0**64, float("nan"), float("-inf")]),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    # No more than the 34 digits that a Decimal128 has.
    st.decimals(-(10**30), 10**30, places=3).map(lambda one: Decimal128(str(one))),
    st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(Decimal128),
    st.integers(-(2**70), 2**70).map(lambda one: Decimal128(f"{one}.5")),
    st.sampled_from(["1E+6000", "-1E+6000", "1E-6000", "9223372036854775807.5", "sNaN", "-0"]).map(Decimal128),
)
"""Where types, roundings and limits meet."""


@pytest.mark.live
@repeatedly
@given(st.lists(st.one_of(values, numbers), min_size=1, max_size=12))
def test_a_server_hashes_alike(replica_set: LocalCluster, many: list[Any]) -> None:
    with MongoClient[dict[str, Any]](replica_set.uri) as client:
        for value in many:
            assert hashed(value) == client.admin.command("_hashBSONElement", value, seed=0)["out"], value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.9),
        (1, Int64(1)),
        (2, Decimal128("1.5")),
        (2, Decimal128("2.5")),
        (0, float("nan")),
        (2, Decimal128("1.9")),
    ],
)
def test_numbers_of_every_type_hash_as_whole_ones(one: Any, other: Any) -> None:
    """A double is cut off; a decimal is rounded, half to even."""
    assert hashed(one) == hashed(other)
