"""`mongofault watch` where one has to say who one is: which rights suffice, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aftermath import Place
from clusters import local
from clusters.cluster import entrances
from clusters.local import OwnCluster
from clusters.topology import Settings, single_replica_set
from clusters.uri import parse
from harness import exits
from harness.watching.looking import Looks
from harness.watching.seats import find

pytestmark = [pytest.mark.live, pytest.mark.slow]

USERS = {"monitor": ["clusterMonitor"], "nobody": []}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.end()


@pytest.fixture(scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnCluster]:
    """A replica set with authorization, and users of different rights."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text("c2VjcmV0" * 8)
    key.chmod(0o600)
    cluster = await local.bring_up(
        single_replica_set(2, settings=Settings(heartbeat_ms=500, election_timeout_ms=1000)), "tests-watched"
    )
    try:
        async with cluster.client() as client:
            for user, roles in USERS.items():
                await client.admin.command("createUser", user, pwd="s3cr3t", roles=roles)
        members = cluster.members.values()
        await asyncio.gather(*(member.kill() for member in members))
        for member in members:
            member.command += ["--auth", "--keyFile", str(key)]
        await asyncio.gather(*(member.start() for member in members))
        yield cluster
    finally:
        await cluster.down()


@pytest.mark.parametrize(("user", "code"), [("monitor", exits.AS_EXPECTED), ("nobody", exits.UNKNOWN)])
async def test_the_role_cluster_monitor_suffices_and_less_is_said_to_be_too_little(
    locked: OwnCluster, place: Place, user: str, code: int
) -> None:
    address = place.root / "uri"
    address.write_text(f"mongodb://{user}:s3cr3t@{','.join(entrances(locked))}/?replicaSet=rs0")
    once = await asyncio.to_thread(place.run, "watch", "--once", "--uri-file", str(address), "--deadline", "20s")
    assert once.returncode == code, once
    assert "s3cr3t" not in once.stdout + once.stderr
    refused = "aggregate is refused: 13 Unauthorized"
    assert (refused in once.stderr) == (code == exits.UNKNOWN)


async def test_members_with_users_of_their_own_are_asked_as_those(locked: OwnCluster) -> None:
    hosts = ",".join(entrances(locked))
    uri = parse(f"mongodb://nobody:s3cr3t@{hosts}/?replicaSet=rs0")
    looks = Looks(await find(uri, parse("mongodb://monitor:s3cr3t@elsewhere/")), every=1.0, patience=20.0)
    await looks.once()
    await looks.close()
    assert looks.unseen == {}
