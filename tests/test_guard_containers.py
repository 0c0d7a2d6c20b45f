"""Undo records on containers: each does its one thing, twice is harmless, and what is gone needs nothing any more."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from docker.models.networks import Network

from clusters.compose import engine, netns
from clusters.guard import (
    ContinueContainer,
    LimitContainer,
    ReconnectContainer,
    RemoveChain,
    RemoveContainers,
    RemoveDiscipline,
    StartContainer,
    Undo,
    UndoFailed,
    from_plain,
)
from compose_parts import asked, endpoints

pytestmark = [pytest.mark.docker]

SLEEP = ["/bin/busybox", "sleep", "600"]
TC = ("tc", "qdisc", "add", "dev", "eth0", "root")
BUCKET = ("tbf", "rate", "1mbit", "burst", "16k", "limit", "64k")


@pytest.fixture
def client(docker_image: str) -> Iterator[docker.DockerClient]:
    with asked() as one:
        yield one


@pytest.fixture
def token(client: docker.DockerClient) -> Iterator[str]:
    """A token; whatever bears it is gone afterwards."""
    one = f"tests-{secrets.token_hex(8)}"
    yield one
    RemoveContainers(one).undo(30)
    assert [engine.bearing(one, kind) for kind in engine.KINDS] == [[], [], []]


@pytest.fixture
def network(client: docker.DockerClient, token: str) -> Network:
    pool = docker.types.IPAMPool(subnet=f"10.159.{secrets.randbelow(256)}.0/24")
    return client.networks.create(
        token, labels={engine.TOKEN: token}, ipam=docker.types.IPAMConfig(pool_configs=[pool])
    )


@pytest.fixture
def sleeper(client: docker.DockerClient, token: str, network: Network, docker_image: str) -> Container:
    """A container that does nothing, for ten minutes; with a volume without a name."""
    return client.containers.run(
        docker_image, entrypoint=SLEEP, labels={engine.TOKEN: token}, network=network.name, detach=True
    )


def status(container: Container) -> str:
    container.reload()
    return str(container.status)


def test_all_that_bears_the_token_is_removed_whatever_it_does_and_nothing_else(
    client: docker.DockerClient, token: str, sleeper: Container, docker_image: str
) -> None:
    client.containers.create(docker_image, entrypoint=SLEEP, labels={engine.TOKEN: token})
    client.volumes.create(token, labels={engine.TOKEN: token})
    other = client.containers.create(docker_image, entrypoint=SLEEP, labels={engine.TOKEN: f"{token}-other"})
    volumes = [mount["Name"] for mount in sleeper.attrs["Mounts"]]
    try:
        sleeper.pause()
        RemoveContainers(token).undo(20)
        assert [engine.bearing(token, kind) for kind in engine.KINDS] == [[], [], []]
        assert not {*volumes} & {one.name for one in client.volumes.list()}
        assert status(other) == "created"
        RemoveContainers(token).undo(20)
    finally:
        other.remove(force=True, v=True)


def test_a_paused_container_and_a_stopped_one_go_on(sleeper: Container) -> None:
    undo = ContinueContainer(str(sleeper.id))
    sleeper.pause()
    undo.undo(5)
    assert status(sleeper) == "running"
    sleeper.kill("STOP")
    undo.undo(5)
    undo.undo(5)
    (row,) = sleeper.top(ps_args="-o pid,stat")["Processes"]
    assert "T" not in row[1]
    sleeper.remove(force=True, v=True)
    undo.undo(5)


def test_a_container_that_was_killed_or_is_about_to_be_is_started_in_another_life(sleeper: Container) -> None:
    sleeper.reload()
    undo = StartContainer(str(sleeper.id), sleeper.attrs["State"]["StartedAt"])
    undo.undo(20)
    assert status(sleeper) == "running"
    assert (second := sleeper.attrs["State"]["StartedAt"]) != undo.life
    sleeper.kill()
    sleeper.wait()
    undo.undo(20)
    undo.undo(20)
    assert status(sleeper) == "running"
    assert sleeper.attrs["State"]["StartedAt"] != second
    sleeper.remove(force=True, v=True)
    with pytest.raises(UndoFailed, match="is gone"):
        undo.undo(5)


def test_a_container_comes_back_to_its_network_under_its_names_and_its_address(
    client: docker.DockerClient, sleeper: Container, network: Network
) -> None:
    network.disconnect(sleeper)
    address = f"{network.attrs['IPAM']['Config'][0]['Subnet'].rpartition('.')[0]}.77"
    undo = ReconnectContainer(str(sleeper.id), str(network.id), ("shard0-0.mine",), address)
    undo.undo(10)
    undo.undo(10)
    sleeper.reload()
    ((there, names),) = endpoints(sleeper.attrs).values()
    assert there == address
    assert "shard0-0.mine" in names
    sleeper.remove(force=True, v=True)
    undo.undo(5)


def test_a_container_has_its_limits_again_and_one_killed_for_want_of_memory_is_started(
    client: docker.DockerClient, token: str, docker_image: str
) -> None:
    script = "[ -e /tmp/lived ] && exec /bin/busybox sleep 600; >/tmp/lived; exec /bin/busybox awk "
    hungry = ["/bin/busybox", "sh", "-c", f"""{script} 'BEGIN {{ s = "xxxxxxxx"; while (1) s = s s }}'"""]
    one = client.containers.run(
        docker_image,
        entrypoint=hungry,
        labels={engine.TOKEN: token},
        mem_limit="32m",
        memswap_limit="32m",
        detach=True,
    )
    undo = LimitContainer(str(one.id), {"mem_limit": 64 << 20, "memswap_limit": 64 << 20, "cpu_quota": -1})
    one.wait(timeout=60)
    one.reload()
    undo.undo(20)
    undo.undo(20)
    one.reload()
    assert one.status == "running"
    assert one.attrs["HostConfig"]["Memory"] == 64 << 20
    one.remove(force=True, v=True)
    undo.undo(5)


def test_what_slows_and_stops_packets_is_taken_away_and_nothing_else(sleeper: Container) -> None:
    if reason := netns.lacking(["tc", "iptables-restore"]):
        pytest.skip(reason)
    sleeper.reload()
    pid = sleeper.attrs["State"]["Pid"]
    identity = str(sleeper.id)
    undos: list[Undo] = [RemoveChain(identity, "mongofault-ours"), RemoveDiscipline(identity, "eth0", "7:")]
    for one in undos:
        one.undo(5)
    chains = [f":{name} - [0:0]" for name in ("mongofault-ours", "mongofault-theirs")]
    jumps = [f"-A {hook} -j mongofault-{whose}" for hook in ("INPUT", "OUTPUT") for whose in ("ours", "theirs")]
    netns.restore(pid, [*chains, *jumps, "-A mongofault-ours -j DROP"])
    netns.run(pid, *TC, "handle", "7:", *BUCKET)
    for _time in range(2):
        for one in undos:
            one.undo(5)
    left = "\n".join(netns.rules(pid))
    assert "mongofault-ours" not in left
    assert left.count("mongofault-theirs") == 3
    assert [one["kind"] for one in netns.disciplines(pid, "eth0")] == ["noqueue"]
    netns.run(pid, *TC, "handle", "8:", *BUCKET)
    undos[1].undo(5)
    assert [one["handle"] for one in netns.disciplines(pid, "eth0")] == ["8:"]
    sleeper.restart(timeout=0)
    for one in undos:
        one.undo(5)
    sleeper.remove(force=True, v=True)
    for one in undos:
        one.undo(5)


@pytest.mark.parametrize(
    "plain",
    [
        {"do": "limit container", "container": "x", "limits": {"pids_limit": 1}},
        {"do": "remove chain", "container": "x", "chain": "DOCKER"},
    ],
)
def test_what_is_not_ours_to_change_is_no_record(plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        from_plain(plain)


def test_an_engine_that_does_not_answer_leaves_the_record_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    plain: list[dict[str, Any]] = [
        {"do": "remove containers", "token": "x"},
        {"do": "continue container", "container": "x"},
        {"do": "start container", "container": "x", "life": ""},
        {"do": "reconnect container", "container": "x", "network": "y", "aliases": [], "address": ""},
        {"do": "limit container", "container": "x", "limits": {"cpu_quota": -1}},
        {"do": "remove discipline", "container": "x", "device": "eth0", "handle": "1:"},
        {"do": "remove chain", "container": "x", "chain": "mongofault-x"},
    ]
    for one in plain:
        with pytest.raises(UndoFailed, match=r"no answer from tcp://127\.0\.0\.1:1"):
            from_plain(one).undo(1)
