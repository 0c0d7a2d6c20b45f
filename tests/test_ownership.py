"""Only a cluster that bears the marker of its ledger is broken; what another is asked until that is known."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import admin, adopted, discovery, kept, local, ownership
from clusters.attached import AttachedCluster
from clusters.cluster import entrances
from clusters.errors import ClusterError, Refused
from clusters.local import LocalCluster, OwnCluster
from clusters.topology import Role, single_replica_set
from clusters.uri import parse
from harness import cli, exits, ground

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
async def theirs() -> AsyncIterator[OwnCluster]:
    """A replica set as somebody else would have it: nothing of ours is in it."""
    cluster = await local.bring_up(single_replica_set(1), "tests-theirs")
    try:
        async with cluster.client() as client:
            await client.drop_database(ownership.DATABASE)
        yield cluster
    finally:
        await cluster.down()


@pytest.fixture(autouse=True)
def _nobody_at_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("rs0\n"))
    monkeypatch.chdir(tmp_path)


async def commands_seen(cluster: OwnCluster) -> dict[str, int]:
    """How often each command was sent to its only member since that started."""
    async with admin.connected(*entrances(cluster)) as connection:
        metrics = (await connection.command("admin", {"serverStatus": 1}))["metrics"]["commands"]
    return {
        name: int(one["total"])
        for name, one in metrics.items()
        if isinstance(one, dict) and "total" in one and name != "serverStatus"
    }


async def marker_in(cluster: LocalCluster) -> dict[str, Any] | None:
    async with cluster.client() as client:
        return await client[ownership.DATABASE][ownership.COLLECTION].find_one()


async def test_bring_up_leaves_a_marker_with_the_id_of_the_ledger(replica_set: OwnCluster) -> None:
    marker = await marker_in(replica_set)
    assert marker is not None
    assert (marker["id"], marker["cluster"], marker["made"]) == (replica_set.ledger.id, replica_set.name, "up")
    assert marker["version"]
    await ownership.require(entrances(replica_set), replica_set.ledger.id, replica_set.name)


async def test_through_the_router_the_marker_is_read_as_well(sharded: OwnCluster) -> None:
    assert (await ownership.marker_of(entrances(sharded))).id == sharded.ledger.id


async def test_a_secondary_leads_to_the_primary_that_has_the_last_word(replica_set: OwnCluster) -> None:
    for member in replica_set.members.values():
        async with ownership.asked([member.host]) as through:
            assert through.hello["isWritablePrimary"]
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1"):
        await ownership.marker_of(["127.0.0.1:1"])


async def test_an_election_is_waited_out_and_a_set_without_a_primary_is_not_broken(theirs: OwnCluster) -> None:
    async with admin.connected(*entrances(theirs)) as connection:
        await connection.command("admin", {"replSetStepDown": 2, "force": True})
    with pytest.raises(Refused, match=r"no primary is known at .*: what is not whole is not broken"):
        async with ownership.asked(entrances(theirs), patience=0):
            raise AssertionError("there is no primary")
    assert (await discovery.attach(parse(theirs.uri))).name == "rs0"
    async with ownership.asked(entrances(theirs)) as through:
        assert through.hello["isWritablePrimary"]


async def test_the_marker_of_another_ledger_does_not_count(replica_set: OwnCluster) -> None:
    with pytest.raises(Refused, match="does not bear the marker of 'mine' but that of cluster 'tests-replica-set'"):
        await ownership.require(entrances(replica_set), "another", "mine")
    with pytest.raises(Refused, match="nothing is written down here"):
        # The ledger's directory is there; only that of a kept or adopted cluster speaks for it.
        await adopted.named(parse(replica_set.uri))


async def test_a_replica_set_is_found_out_from_its_uri(replica_set: OwnCluster) -> None:
    found = await discovery.attach(parse(replica_set.uri))
    assert found.name == "rs0"
    assert {name: one.host for name, one in found.members.items()} == {
        name: one.host for name, one in replica_set.members.items()
    }
    assert found.topology.shards == replica_set.topology.shards
    assert (found.server.version, found.server.router) == (replica_set.server.version, "none")


async def test_a_sharded_cluster_is_found_out_through_its_router(sharded: OwnCluster) -> None:
    found = await discovery.attach(parse(sharded.uri))
    # The router host is no part of the cluster that a router shows.
    members = {name: one.host for name, one in sharded.members.items() if one.spec.role is not Role.ROUTER_HOST}
    assert {name: one.host for name, one in found.members.items()} == members
    assert found.topology.shards == sharded.topology.shards
    assert found.router == sharded.router
    assert found.server.router == sharded.server.router
    assert found.server.parameters["enableTestCommands"] in ("1", "True")
    shard = sharded.members["shard0-0"].host
    with pytest.raises(Refused, match="expected the URI of its router"):
        await discovery.attach(parse(f"mongodb://{shard}/"))


@pytest.mark.parametrize(
    "attempt",
    [
        ["fault", "hang-after-command", "--on", "primary", "--namespace", "a.b", "--uri"],
        ["run", "update-lookup-stall", "--uri"],
        ["chaos", "--uri"],
        ["chaos", "--dry-run", "--uri"],
        ["release"],
    ],
)
def test_nothing_but_hello_and_one_find_reaches_a_cluster_that_is_not_ours(
    attempt: list[str], theirs: OwnCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = asyncio.run(commands_seen(theirs))
    assert cli.run([*attempt, theirs.uri]) == exits.REFUSED
    error = capsys.readouterr().err
    after = asyncio.run(commands_seen(theirs))
    asked = {name: count - before[name] for name, count in after.items() if count != before[name]}
    # The second hello is that of the second look.
    assert asked == {"hello": 2, "find": 1}
    assert "does not bear the marker of mongofault: it is not ours to break" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("runs/*"))


@pytest.fixture
async def taken(theirs: OwnCluster) -> AsyncIterator[AttachedCluster]:
    """The same cluster, adopted, and released in the end."""
    uri = parse(theirs.uri)
    await adopted.adopt(await discovery.attach(uri), uri, "taken")
    try:
        yield await adopted.load("taken", uri)
    finally:
        if kept.is_adopted("taken"):
            await adopted.release("taken", uri, forget=False)


def test_an_adopted_cluster_is_broken_by_what_its_server_does_itself(
    taken: AttachedCluster, theirs: OwnCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    hang = ["fault", "hang-after-command", "--on", "primary", "--namespace", "a.b", "--hold", "1s"]
    assert cli.run([*hang, "--cluster", "taken"]) == exits.AS_EXPECTED, capsys.readouterr()
    assert cli.run([*hang, "--uri", theirs.uri]) == exits.AS_EXPECTED, capsys.readouterr()


def test_what_takes_a_process_of_ours_is_not_to_be_had_there(
    taken: AttachedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["fault", "freeze", "--on", "primary", "--cluster", "taken"]) == exits.REFUSED
    assert "rs0-0 is not a process of this machine" in capsys.readouterr().err
    assert cli.run(["fault", "freeze", "--on", "router", "--cluster", "taken"]) == exits.REFUSED
    (member,) = taken.members.values()
    with pytest.raises(ClusterError, match="no process of ours"):
        member.freeze()


async def test_adopting_twice_is_refused_and_the_first_owner_unharmed(
    taken: AttachedCluster, theirs: OwnCluster
) -> None:
    uri = parse(theirs.uri)
    with pytest.raises(Refused, match="'taken' is taken"):
        await adopted.adopt(taken, uri, "taken")
    with pytest.raises(Refused, match="bears a marker already: cluster 'taken'"):
        await adopted.adopt(taken, uri, "again")
    assert adopted.names() == ["taken"]
    assert await adopted.named(uri) == "taken"


async def test_a_marker_of_another_id_ends_what_the_record_allowed(taken: AttachedCluster, theirs: OwnCluster) -> None:
    async with theirs.client() as client:
        owner = client[ownership.DATABASE][ownership.COLLECTION]
        marker = await owner.find_one_and_update({}, {"$set": {"id": "another"}})
        assert marker is not None
        with pytest.raises(Refused, match="does not bear the marker of 'taken' but that of"):
            async with ground.ours("taken"):
                raise AssertionError("not ours any more")
        await owner.update_one({}, {"$set": {"id": marker["id"]}})
    async with ground.ours("taken") as (cluster, _):
        assert cluster.name == "taken"


async def test_release_leaves_nothing_in_the_cluster_and_nothing_here(theirs: OwnCluster, own_state: Path) -> None:
    uri = parse(theirs.uri)
    await adopted.adopt(await discovery.attach(uri), uri, "briefly")
    assert await marker_in(theirs) is not None
    await adopted.release("briefly", uri, forget=False)
    async with theirs.client() as client:
        assert ownership.DATABASE not in await client.list_database_names()
    assert not (own_state / "ledgers/briefly").exists()
    with pytest.raises(Refused, match="does not bear the marker"):
        await adopted.named(uri)


async def test_release_leaves_what_others_have_put_beside_the_marker(theirs: OwnCluster) -> None:
    uri = parse(theirs.uri)
    await adopted.adopt(await discovery.attach(uri), uri, "beside")
    async with theirs.client() as client:
        database = client[ownership.DATABASE]
        await database["notes"].insert_one({"keep": "me"})
        await adopted.release("beside", uri, forget=False)
        assert await database["notes"].count_documents({}) == 1
        assert await database[ownership.COLLECTION].find_one() is None
        await client.drop_database(database)


@pytest.fixture
def adopted_for_the_command_line(theirs: OwnCluster) -> Iterator[None]:
    uri = parse(theirs.uri)

    async def adopt() -> None:
        await adopted.adopt(await discovery.attach(uri), uri, "listed")

    asyncio.run(adopt())
    yield
    asyncio.run(adopted.release("listed", uri, forget=False))


@pytest.mark.usefixtures("adopted_for_the_command_line")
def test_the_command_line_tells_an_adopted_cluster_from_its_own(
    theirs: OwnCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["down", "listed"]) == exits.REFUSED
    assert "is not ours to remove: mongofault release listed" in capsys.readouterr().err
    assert cli.run(["down", "--all"]) == exits.AS_EXPECTED
    assert cli.run(["ls", "--json"]) == exits.AS_EXPECTED
    listed = capsys.readouterr().out
    assert [one["identity"] for one in json.loads(listed[listed.index("[") :])] == ["rs0"]
    assert cli.run(["status", "listed", "--json"]) == exits.AS_EXPECTED
    (member,) = json.loads(capsys.readouterr().out)["members"]
    assert member["state"] == "primary"
    assert set(member["watchers"].values()) == {"yes"}
    assert member["fail_points"] is True


def test_attach_reads_and_leaves_no_trace(theirs: OwnCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["attach", theirs.uri]) == exits.AS_EXPECTED
    shown = capsys.readouterr().out
    assert "owner: none: it is not ours to break" in shown
    assert "rs0-0" in shown


def test_from_a_pipe_nothing_is_adopted(theirs: OwnCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["adopt", theirs.uri]) == exits.REFUSED
    assert "typed by a person" in capsys.readouterr().err
    assert asyncio.run(marker_in(theirs)) is None


@pytest.fixture
async def sharded_taken(sharded: OwnCluster) -> AsyncIterator[OwnCluster]:
    """The shared cluster as if somebody else had made it, adopted as `apart`; its own again in the end."""
    uri = parse(sharded.uri)
    async with sharded.client() as client:
        owner = client[ownership.DATABASE][ownership.COLLECTION]
        marker = await owner.find_one_and_delete({"_id": ownership.ONE})
        assert marker is not None
        try:
            await adopted.adopt(await discovery.attach(uri), uri, "apart")
            try:
                yield sharded
            finally:
                await adopted.release("apart", uri, forget=False)
        finally:
            await owner.replace_one({"_id": ownership.ONE}, marker, upsert=True)


@pytest.mark.slow
def test_a_run_on_an_adopted_sharded_cluster_finds_what_it_finds_on_its_own(
    sharded_taken: OwnCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "update-lookup-stall", "--uri", sharded_taken.uri, "--streams", "2", "--hold", "5s"]
    assert cli.run([*run, "--fault", "freeze"]) == exits.REFUSED
    assert "freeze on shard0-2: shard0-2 is not a process of this machine" in capsys.readouterr().err
    assert not list(tmp_path.glob("runs/*"))
    assert cli.run([*run, "--fault", "pause-replication"]) == exits.AS_EXPECTED, capsys.readouterr().out
    (result,) = tmp_path.glob("runs/*/result.json")
    assert json.loads(result.read_text())["outcome"] == "stalled"
