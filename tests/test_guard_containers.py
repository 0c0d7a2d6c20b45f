"""Undo records on containers: each does its one thing, twice is harmless, and what is gone needs nothing any more."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from docker.models.networks import Network

from clusters.compose import engine
from clusters.guard import (
    ContinueContainer,
    ReconnectContainer,
    RemoveContainers,
    StartContainer,
    UndoFailed,
    from_plain,
)
from compose_parts import asked, endpoints

pytestmark = [pytest.mark.docker]

SLEEP = ["/bin/busybox", "sleep", "600"]


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


def test_an_engine_that_does_not_answer_leaves_the_record_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    plain: list[dict[str, Any]] = [
        {"do": "remove containers", "token": "x"},
        {"do": "continue container", "container": "x"},
        {"do": "start container", "container": "x", "life": ""},
        {"do": "reconnect container", "container": "x", "network": "y", "aliases": [], "address": ""},
    ]
    for one in plain:
        with pytest.raises(UndoFailed, match=r"no answer from tcp://127\.0\.0\.1:1"):
            from_plain(one).undo(1)
