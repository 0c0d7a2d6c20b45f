"""Which members a read preference allows, from tables. No cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.router.errors import RouterError
from clusters.router.read_preference import LATENCY_WINDOW, MODES, Candidate, eligible, parse

PRIMARY = Candidate("p", True, {"dc": "a"}, 0.001)
NEAR = Candidate("near", False, {"dc": "a", "use": "report"}, 0.001)
OTHER = Candidate("other", False, {"dc": "b"}, 0.010)
FAR = Candidate("far", False, {"dc": "b"}, 0.050)
ALL = (PRIMARY, NEAR, OTHER, FAR)


@pytest.mark.parametrize(
    ("document", "members", "hosts"),
    [
        ({}, ALL, "p"),
        ({"mode": "primary"}, ALL, "p"),
        ({"mode": "primary"}, (NEAR, FAR), ""),
        ({"mode": "primary", "tags": [{}]}, ALL, "p"),
        ({"mode": "primaryPreferred"}, ALL, "p"),
        ({"mode": "primaryPreferred"}, (NEAR, OTHER, FAR), "near other"),
        ({"mode": "primaryPreferred", "tags": [{"dc": "b"}]}, (NEAR, OTHER), "other"),
        ({"mode": "secondary"}, ALL, "near other"),
        ({"mode": "secondary"}, (PRIMARY,), ""),
        ({"mode": "secondary"}, (PRIMARY, FAR), "far"),
        ({"mode": "secondary", "tags": [{"dc": "b"}]}, ALL, "other"),
        ({"mode": "secondary", "tags": [{"dc": "b"}]}, (PRIMARY, NEAR, FAR), "far"),
        ({"mode": "secondary", "tags": [{"dc": "c"}, {"use": "report"}]}, ALL, "near"),
        ({"mode": "secondary", "tags": [{"dc": "a"}, {"dc": "b"}]}, ALL, "near"),
        ({"mode": "secondary", "tags": [{"dc": "a", "use": "other"}]}, ALL, ""),
        ({"mode": "secondary", "tags": [{"dc": "c"}, {}]}, ALL, "near other"),
        ({"mode": "secondary", "tags": []}, ALL, "near other"),
        ({"mode": "secondaryPreferred"}, ALL, "near other"),
        ({"mode": "secondaryPreferred"}, (PRIMARY,), "p"),
        ({"mode": "secondaryPreferred", "tags": [{"dc": "c"}]}, ALL, "p"),
        ({"mode": "nearest"}, ALL, "p near other"),
        ({"mode": "nearest", "tags": [{"dc": "a"}]}, ALL, "p near"),
        ({"mode": "nearest"}, (), ""),
    ],
)
def test_mode_tags_and_window_decide(document: dict[str, Any], members: tuple[Candidate, ...], hosts: str) -> None:
    assert [one.host for one in eligible(parse(document), members)] == hosts.split()


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        ({"mode": "fastest"}, 9, "'fastest'"),
        ({"mode": "primary", "tags": [{"dc": "a"}]}, 2, "takes no tags"),
        ({"mode": "secondary", "tags": {"dc": "a"}}, 14, "array of documents"),
        ({"mode": "secondary", "maxStalenessSeconds": 90}, 238, "maxStalenessSeconds 90"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(document: dict[str, Any], code: int, said: str) -> None:
    with pytest.raises(RouterError, match=said) as refused:
        parse(document)
    assert refused.value.code == code
    assert "\n" not in str(refused.value)


candidates = st.lists(
    st.builds(Candidate, st.text("hosts", min_size=1), st.booleans(), st.just({}), st.floats(0, 0.1)), max_size=8
)


@given(candidates, st.sampled_from(MODES))
def test_nobody_outside_the_latency_window_is_chosen_and_somebody_is_where_anybody_is_allowed(
    members: list[Candidate], mode: str
) -> None:
    chosen = eligible(parse({"mode": mode}), members)
    if mode not in ("primary", "primaryPreferred") and not all(one.primary for one in chosen):
        fastest = min(one.round_trip for one in members if mode == "nearest" or not one.primary)
        assert all(one.round_trip <= fastest + LATENCY_WINDOW for one in chosen)
    allowed = {"primary": any(one.primary for one in members), "secondary": any(not one.primary for one in members)}
    assert bool(chosen) == allowed.get(mode, bool(members))
