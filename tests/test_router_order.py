"""The sort key of BSON values orders as a real server does."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient

from bson_values import names, repeatedly, scalars
from clusters.local import LocalCluster
from clusters.router.errors import RouterError
from clusters.router.order import value_key

values = st.recursive(scalars, lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=4)
"""Without arrays: a server sorts by their least member, and a shard key holds none."""


@pytest.mark.live
@repeatedly
@given(st.lists(values, min_size=2, max_size=12))
def test_a_server_sorts_as_the_keys_do(replica_set: LocalCluster, many: list[Any]) -> None:
    with MongoClient[dict[str, Any]](replica_set.uri) as client:
        collection = client.router_order.values
        collection.delete_many({})
        collection.insert_many([{"v": one, "place": place} for place, one in enumerate(many)])
        by_server = [many[one["place"]] for one in collection.find().sort("v", 1)]
    keys = [value_key(one) for one in by_server]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, Decimal128("1.00")), (0.0, -0.0), (float("nan"), Decimal128("NaN")), (2**53, float(2**53))],
)
def test_numbers_are_equal_across_types(one: Any, other: Any) -> None:
    assert value_key(one) == value_key(other)


@pytest.mark.parametrize(("less", "more"), [(float("nan"), float("-inf")), (2**53, 2**53 + 1), (True, "later type")])
def test_neighbours_are_told_apart(less: Any, more: Any) -> None:
    assert value_key(less) != value_key(more)


def test_a_type_without_a_place_is_refused() -> None:
    with pytest.raises(RouterError, match="cannot order"):
        value_key(object())
