"""Ports are had by one process at a time, and one that was lost all the same is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from clusters import local, ports
from clusters.errors import MemberDied, Refused
from clusters.topology import single_replica_set

CHOOSE_AND_STAY = """
import sys
from clusters import ports
ports.LOWEST, ports.HIGHEST = int(sys.argv[1]), int(sys.argv[2])
print(*ports.choose(int(sys.argv[3])), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def another_process(lowest: int, highest: int, count: int) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    command = [sys.executable, "-c", CHOOSE_AND_STAY, str(lowest), str(highest), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, {int(port) for port in process.stdout.readline().split()}
        process.kill()


@pytest.fixture
def range_of_forty(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Few enough that two who choose at random would meet."""
    (lowest,) = ports.choose(1)
    ports.give_back([lowest])
    lowest = min(lowest, ports.HIGHEST - 40)
    monkeypatch.setattr(ports, "LOWEST", lowest)
    monkeypatch.setattr(ports, "HIGHEST", lowest + 40)
    return lowest, lowest + 40


def test_what_one_process_has_chosen_no_other_gets(range_of_forty: tuple[int, int]) -> None:
    with another_process(*range_of_forty, 20) as (_, theirs):
        assert len(theirs) == 20
        ours = ports.choose(10)
        ports.give_back(ours)
    assert not theirs & set(ours)


def test_killed_it_has_them_no_longer(range_of_forty: tuple[int, int]) -> None:
    with another_process(*range_of_forty, 30) as (process, theirs):
        with pytest.raises(Refused, match="30 needed: end other servers"):
            ports.choose(30)
        process.kill()
        process.wait()
        ours = ports.choose(30)
        ports.give_back(ours)
    assert theirs & set(ours)


def test_a_port_that_is_bound_and_not_listened_on_is_not_chosen(range_of_forty: tuple[int, int]) -> None:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", range_of_forty[0]))
        for _ in range(10):
            chosen = ports.choose(30)
            ports.give_back(chosen)
            assert range_of_forty[0] not in chosen


@pytest.mark.live
async def test_a_cluster_that_is_gone_has_given_its_ports_back() -> None:
    cluster = await local.bring_up(single_replica_set(1), "tests-ports-back")
    number = int(cluster.members["rs0-0"].host.rpartition(":")[2])
    assert number in ports._leases
    await cluster.down()
    assert number not in ports._leases


@pytest.mark.live
async def test_a_port_lost_before_it_is_bound_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        (death,) = await deaths_when_lost(monkeypatch, somebody.getsockname()[1])
    assert death.exit_code == ports.ADDRESS_IN_USE_EXIT


@pytest.mark.live
async def test_a_port_lost_between_bind_and_listen_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = ports.choose(1)
    with socket.socket() as somebody:
        listening = asyncio.create_task(asyncio.to_thread(listen_once_bound_by_another, somebody, taken))
        (death,) = await deaths_when_lost(monkeypatch, taken)
        await listening
    assert death.exit_code == -6
    assert "Address already in use" in str(death)
    ports.give_back([taken])


def listen_once_bound_by_another(somebody: socket.socket, port: int) -> None:
    deadline = time.monotonic() + 30
    while ports._bindable(port, reuse=False):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    somebody.bind(("127.0.0.1", port))
    somebody.listen()


async def deaths_when_lost(monkeypatch: pytest.MonkeyPatch, taken: int) -> list[MemberDied]:
    """Bring a cluster up which gets `taken` at its first try: whose deaths were laid to a lost port."""
    choose, was_lost = ports.choose, ports.was_lost
    deaths: list[MemberDied] = []

    def chosen(count: int) -> list[int]:
        return choose(count) if deaths else [*choose(count - 1), taken]

    def lost(error: MemberDied) -> bool:
        deaths.append(error)
        return was_lost(error)

    monkeypatch.setattr(ports, "choose", chosen)
    monkeypatch.setattr(ports, "was_lost", lost)
    cluster = await local.bring_up(single_replica_set(1), "tests-ports")
    await cluster.down()
    return deaths
