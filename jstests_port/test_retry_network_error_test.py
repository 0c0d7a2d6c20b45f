"""Upstream: jstests/noPassthrough/retry_network_error_test.js

Retries on network errors are as many as were asked for, and none where there is no error.

Differs: upstream tests the shell's `retryOnNetworkError`; what retries here is an application's policy of this project,
`fixed`. The name that means no host is refused by a resolver of the test's own, so that no query leaves the machine.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from harness.drivers.retries import fixed
from jstests_port.raw_connection import NETWORK_ERRORS, raw_connection
from jstests_port.repl_set_test import ReplSetTest

RETRIES = 5
INTERVAL = 0.05
NOWHERE = "very-invalid-host-name:27017"


async def attempts(host: str) -> int:
    """How often a connection to it was tried, the policy's waits in between."""
    tried = 0

    async def connect(_execution: int) -> None:
        nonlocal tried
        tried += 1
        async with raw_connection(host):
            pass

    try:
        await fixed(INTERVAL, RETRIES).run(connect, not_retryable=lambda error: not isinstance(error, NETWORK_ERRORS))
    except NETWORK_ERRORS:
        assert tried == RETRIES + 1, "it gave up before its last retry"
    return tried


async def test_a_node_that_is_up_is_tried_once(rst: ReplSetTest) -> None:
    assert await attempts((await rst.get_primary()).host) == 1


async def test_a_node_that_is_down_is_tried_as_often_as_allowed(rst: ReplSetTest) -> None:
    node = (await rst.get_secondaries())[0]
    member = rst.member(node)
    await member.kill()
    try:
        assert await attempts(node.host) == RETRIES + 1
    finally:
        await member.start()
        await rst.await_secondary_nodes()


async def test_a_name_that_means_no_host_is_tried_as_often_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(host: str, *_args: Any, **_more: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)

    assert await attempts(NOWHERE) == RETRIES + 1
