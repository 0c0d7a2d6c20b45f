"""Driver options and read preferences: what is taken, what is refused, and that closing is bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.drivers.clients import (
    DriverOptionError,
    close_client,
    open_client,
    parse_driver_options,
    read_preference,
)


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ("socketTimeoutMS=3000", {"socketTimeoutMS": 3000}),
        ("timeoutMS=500", {"timeoutMS": 500}),
        ("retryReads=false", {"retryReads": False}),
        ("maxPoolSize=5", {"maxPoolSize": 5}),
        ("w=majority", {"w": "majority"}),
        ("replicaSet=5", {"replicaSet": "5"}),
    ],
)
def test_driver_options_become_typed_values(given: str, typed: dict[str, object]) -> None:
    parsed = parse_driver_options([given])
    assert parsed == typed
    assert [type(value) for value in parsed.values()] == [type(value) for value in typed.values()]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("socketTimeoutMS", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
        ("socketTimeoutMS=soon", "must be an integer or float"),
        ("socketTimeoutMS=-1", "must be greater than 0"),
        ("socketTimeotMS=3000", "Unknown option"),
        ("retryReads=maybe", "must be 'true' or 'false'"),
        ("readPreference=nearest", "set by the harness itself"),
    ],
)
def test_a_bad_driver_option_is_refused_in_one_line(given: str, says: str) -> None:
    with pytest.raises(DriverOptionError) as refused:
        parse_driver_options([given])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_options_reach_the_client_in_the_unit_of_their_name() -> None:
    client: Any = open_client(
        "mongodb://127.0.0.1:1",
        preference=read_preference("secondary", {"dc": "a"}),
        options=parse_driver_options(["socketTimeoutMS=3000", "retryReads=false"]),
    )
    assert client.options.pool_options.socket_timeout == 3.0
    assert client.options.retry_reads is False
    assert client.read_preference.document == {"mode": "secondary", "tags": [{"dc": "a"}]}
    await close_client(client)


def test_a_value_only_the_client_can_judge_is_refused_in_one_line() -> None:
    with pytest.raises(DriverOptionError, match=r"cannot be less than 500"):
        open_client("mongodb://127.0.0.1:1", options=parse_driver_options(["heartbeatFrequencyMS=10"]))


@pytest.mark.parametrize(("mode", "tags"), [("primary", {"dc": "a"}), ("secundary", None)])
def test_a_read_preference_that_cannot_be_is_refused(mode: str, tags: dict[str, str] | None) -> None:
    with pytest.raises(DriverOptionError, match="read preference"):
        read_preference(mode, tags)


async def test_closing_a_client_that_never_connected_is_quick() -> None:
    client = open_client("mongodb://127.0.0.1:1")
    async with asyncio.timeout(2):
        await close_client(client)
