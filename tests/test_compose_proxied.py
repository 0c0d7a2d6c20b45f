"""A proxy before every container: all go through it, the faults that are its alone, and what a kill leaves."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo.errors import NetworkTimeout, WriteConcernError, WTimeoutError
from pymongo.write_concern import WriteConcern

import mongofault
from aftermath import Place, healed_after_a_kill, wait_for
from clusters.wire.proxy.client import ProxyControl
from compose_parts import endpoints, left_after, member, patience, up
from harness import exits
from retry_overlap_parts import counted, run, valid

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.timeout(400)]

NAME = f"proxied-{secrets.token_hex(3)}"
SET = ("shard0-0", "shard0-1", "shard0-2")
HELD_DEADLINE = 60.0
SOON = ("--retry", "fixed(0s,1)", "--driver-option", "socketTimeoutMS=1000")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, docker_image: str) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("proxied"))
    try:
        yield one
    finally:
        one.run("down", "--all")
        one.end()


@pytest.fixture(scope="module")
def mine(place: Place, docker_image: str) -> Iterator[dict[str, Any]]:
    """A kept cluster, as its `up` describes it; this process finds it as a command would."""
    described = up(place, NAME, "--proxied", "--shards", "1", "--image", docker_image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONGOFAULT_STATE", str(place.root / "state"))
        yield described


@asynccontextmanager
async def held() -> AsyncIterator[mongofault.Ground]:
    async with mongofault.hold(NAME) as ground:
        yield ground
        await mongofault.recovered(ground.cluster)


async def status() -> dict[str, Any]:
    """What the proxy says of itself."""
    proxy = mongofault.load_cluster(NAME).proxy
    assert proxy is not None
    control = await ProxyControl.open(proxy.host)
    try:
        return await control.status()
    finally:
        control.close()


async def test_members_and_drivers_go_through_the_proxy_which_knows_one_member_from_another(
    mine: dict[str, Any],
) -> None:
    bridge = endpoints(member(NAME, "shard0-0")).popitem()[1][0].rpartition(".")[0] + ".1"
    hosts = {one["name"]: one["host"] for one in mine["members"]}
    assert {host.rpartition(":")[0] for host in hosts.values()} == {bridge}
    cluster = mongofault.load_cluster(NAME)
    async with cluster.client() as client:
        await client.shop.orders.insert_one({"_id": 1})
    async with cluster.members["shard0-0"].client() as client:
        known = (await client.admin.command("hello"))["hosts"]
    assert sorted(known) == sorted(hosts[name] for name in SET)
    links = {one["name"]: one for one in (await status())["links"]}
    assert links["router"]["listen"] == mine["router"]
    for name in SET:
        assert links[name]["listen"] == hosts[name]
        assert links[name]["target"] == f"{endpoints(member(NAME, name)).popitem()[1][0]}:27017"
        others = {one["source"] for one in links[name]["connections"]}
        assert others >= {*SET} - {name}, links[name]


async def test_between_two_members_nothing_passes_and_the_third_is_reached_by_both(mine: dict[str, Any]) -> None:
    async with held() as ground, ground.cluster.client(serverSelectionTimeoutMS=10_000) as client:
        orders = client.get_database("shop").orders

        async def written_to(members: int, seconds: float) -> None:
            concern = WriteConcern(members, wtimeout=int(1000 * seconds))
            await orders.with_options(write_concern=concern).insert_one({})

        await written_to(3, 20)
        async with mongofault.injected(ground, "partition", "shard0-2", options=["against=shard0-0"]) as (proof,):
            assert proof.fields["connections"] > 0
            with pytest.raises((WriteConcernError, WTimeoutError)):
                await written_to(3, 1)
            await written_to(2, 20)
        await written_to(3, 20)


async def test_what_is_swallowed_was_done_and_no_reply_comes(mine: dict[str, Any]) -> None:
    async with held() as ground, ground.cluster.client(socketTimeoutMS=1000, retryWrites=False) as client:
        lost = ["source=driver", "commands=insert"]
        async with mongofault.injected(ground, "swallow", "router", options=lost):
            with pytest.raises(NetworkTimeout):
                await client.shop.orders.insert_one({"_id": "swallowed"})
            assert await client.shop.orders.count_documents({"_id": "swallowed"}) == 1
        await client.shop.orders.insert_one({"_id": "answered"})


async def test_an_answer_comes_later_by_as_much(mine: dict[str, Any]) -> None:
    async with held() as ground, ground.cluster.members["shard0-1"].client() as client:
        await client.admin.command("ping")
        async with mongofault.injected(ground, "latency", "shard0-1", options=["ms=150"]):
            began = time.monotonic()
            await client.admin.command("ping")
            assert time.monotonic() - began >= 0.3


async def test_the_kernel_is_not_asked_to_part_those_who_meet_in_the_proxy(mine: dict[str, Any], place: Place) -> None:
    done = await asyncio.to_thread(
        place.run, "fault", "partition", "--fault-option", "by=kernel", "--on", "shard0-2", "--cluster", NAME
    )
    assert done.returncode == exits.REFUSED
    assert "reach each other through proxies: expected by=proxy" in done.stderr
    assert done.stderr.count("\n") == 1


async def test_killed_while_a_member_is_cut_off_the_guardian_heals_it(
    mine: dict[str, Any], place: Place, docker_image: str
) -> None:
    process = place.start("fault", "blackhole", "--on", "shard0-2", "--cluster", NAME, "--hold", "60s")
    await asyncio.to_thread(wait_for, ["held for"], process, HELD_DEADLINE)
    assert [one["kind"] for one in (await status())["rules"]] == ["blackhole"]
    soon = patience(docker_image)
    process.kill()
    process.communicate()
    await asyncio.to_thread(healed_after_a_kill, place, NAME, soon)
    assert (await status())["rules"] == []


def test_what_a_run_on_containers_sent_is_counted_by_its_proxy(
    mine: dict[str, Any], place: Place, docker_image: str
) -> None:
    done = run(place, "--provider", "compose", "--image", docker_image, "--fault", "swallow", *SOON)
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    executions, sends, copies, _groups = counted(done)
    assert (executions, sends, copies) == (2, 4, 2)
    assert valid(done)["counts"]


def test_down_leaves_no_container_and_no_proxy(mine: dict[str, Any], place: Place) -> None:
    listed = json.loads(place.run("status", NAME, "--json").stdout)
    assert {one["process"] for one in listed["members"]} == {"running"}
    assert place.run("down", NAME).returncode == exits.AS_EXPECTED
    assert left_after(place, NAME, 1.0) == []
