"""Hypothesis strategies for BSON values and commands, as the codec of `clusters.wire` decodes them."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import settings
from hypothesis import strategies as st

repeatedly = settings(max_examples=50, deadline=None)
"""No deadline: the machine may be busy with clusters."""

names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=20)

comparable: st.SearchStrategy[Any] = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(allow_nan=True),
    st.integers(-(10**6), 10**6).map(lambda one: Decimal128(str(one / 8))),
    texts,
    st.booleans(),
    st.none(),
    st.binary(max_size=6),
    st.binary(max_size=6).map(lambda one: Binary(one, 5)),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.integers(-(2**40), 2**40).map(DatetimeMS),
    # Never Timestamp(0, 0): a server puts its own time in the place of that when it is inserted.
    st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1)).map(lambda one: Timestamp(*one)),
    st.just(MinKey()),
    st.just(MaxKey()),
)
"""Values with a defined order among all others."""

scalars = st.one_of(comparable, texts.map(Code), st.just(Regex("^a", "i")), st.just(Code("f()", {"a": 1})))

values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=5,
)

documents = st.dictionaries(names.filter(lambda name: name != "_id"), values, max_size=5)
"""Without `_id`, which the encoder would put first."""
