"""Faults on a replica set: who is primary, who is in it, who is seen, who bears which tag, who applies late."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.read_preferences import Secondary, SecondaryPreferred

from clusters import admin
from clusters.cluster import of_set
from clusters.local import OwnCluster
from clusters.member import LocalMember, Member
from clusters.topology import ROUTER
from fault_parts import a_secondary, fault, slow, struck, the_primary
from faults import Unproven

pytestmark = pytest.mark.live

ON_SECONDARIES = ("hide-member", "remove-member", "slow-apply", "slow-apply how=secondaryDelay seconds=2")


async def knows(cluster: OwnCluster, member: LocalMember) -> bool:
    """Whether a driver hears of it from the primary."""
    async with (await the_primary(cluster)).client() as client:
        hello = await client.admin.command("hello")
    return member.host in [*hello["hosts"], *hello.get("passives", ())]


async def configured(cluster: OwnCluster, member: Member) -> dict[str, Any]:
    async with (await the_primary(cluster)).client() as client:
        config = (await client.admin.command("replSetGetConfig"))["config"]
    return next((one for one in config["members"] if one["host"] == member.host), {})


async def applied_after(cluster: OwnCluster, member: LocalMember) -> float:
    """Seconds until a write is seen on the member by a driver."""
    async with (await the_primary(cluster)).client() as writing, member.client() as reading:
        key = time.monotonic()
        await writing.injured.things.insert_one({"_id": key})
        begin = time.monotonic()
        things = reading.injured.get_collection("things", read_preference=SecondaryPreferred())

        async def seen() -> bool:
            return await things.find_one({"_id": key}) is not None

        await admin.until(f"{member.name} has the write", seen, deadline=20)
        return time.monotonic() - begin


async def replicates_at_once(cluster: OwnCluster, member: LocalMember) -> None:
    """On a busy machine now and then one write takes longer."""

    async def at_once() -> bool:
        return await applied_after(cluster, member) < 0.2

    await admin.until(f"a write is on {member.name} at once", at_once, deadline=30)


async def test_a_primary_steps_down_and_the_driver_writes_to_another(nimble: OwnCluster, tmp_path: Path) -> None:
    primary = await the_primary(nimble)
    async with struck(nimble, primary, "step-down", tmp_path) as blow, nimble.client() as client:
        await client.injured.things.insert_one({})
        assert await client.address == (primary.host.partition(":")[0], int(primary.host.rpartition(":")[2]))
        evidence = await blow.injection.inject()
        successor = nimble.members[evidence.fields["primary"]]
        assert successor is not primary
        await client.injured.things.insert_one({})
        assert f"{(await client.address)[1]}" == successor.host.rpartition(":")[2]  # type: ignore[index]
        assert await blow.fault.active()
        reason = await fault(nimble, primary, "step-down").available()
        assert reason == f"{primary.name} is not the primary of rs0"
        assert blow.records() == [f"end of the step-down of {primary.host}"]
        for _time in range(2):
            await blow.undo_from_records_alone()

        async def back() -> bool:
            return not await blow.fault.active()

        # Its step-down would last a minute; its priority is the highest.
        await admin.until("it is elected again", back, deadline=20)
        await blow.undo_from_records_alone()


async def test_a_hidden_member_is_forgotten_by_drivers_and_goes_on_replicating(
    nimble: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(nimble)
    before = await configured(nimble, victim)
    async with struck(nimble, victim, "hide-member", tmp_path) as blow:
        assert await knows(nimble, victim)
        await blow.injection.inject()
        assert not await knows(nimble, victim)
        await replicates_at_once(nimble, victim)
        assert await fault(nimble, victim, "hide-member").available() == (
            f"{victim.name} is hidden already, and not by this run"
        )
        for _time in range(2):
            await blow.undo_from_records_alone()
        assert await configured(nimble, victim) == before
        assert await knows(nimble, victim)


async def test_a_removed_member_serves_nobody_and_comes_back_as_it_was(nimble: OwnCluster, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    before = await configured(nimble, victim)
    async with struck(nimble, victim, "remove-member", tmp_path) as blow:
        await blow.injection.inject()
        assert not await knows(nimble, victim)
        async with victim.client() as client:
            with pytest.raises((OperationFailure, AutoReconnect)):
                await client.injured.get_collection("things", read_preference=SecondaryPreferred()).find_one()
        assert await fault(nimble, victim, "remove-member").available() == (
            f"{victim.name} is not in the configuration of rs0"
        )
        for _time in range(2):
            await blow.undo_from_records_alone()
    assert await configured(nimble, victim) == before
    assert await knows(nimble, victim)
    await replicates_at_once(nimble, victim)


@pytest.mark.parametrize("form", ["slow-apply", *slow("slow-apply how=secondaryDelay seconds=2")])
async def test_a_slow_member_has_each_write_later_and_still_has_it(
    nimble: OwnCluster, form: str, tmp_path: Path
) -> None:
    victim = await a_secondary(nimble)
    before = await configured(nimble, victim)
    await replicates_at_once(nimble, victim)
    async with struck(nimble, victim, form, tmp_path) as blow:
        evidence = await blow.injection.inject()
        assert evidence.fields["seconds"] > (1 if "secondaryDelay" in form else 0.1)
        assert await blow.fault.active()
        assert await applied_after(nimble, victim) > (1 if "secondaryDelay" in form else 0.2)
        assert await knows(nimble, victim) == ("secondaryDelay" not in form)
        assert "already, and not by this run" in str(await fault(nimble, victim, form).available())
        await blow.undo_from_records_alone()
        assert not await blow.fault.active()
    assert await configured(nimble, victim) == before
    await replicates_at_once(nimble, victim)


async def test_tags_move_to_another_member_and_tagged_reads_with_them(nimble: OwnCluster, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    primary = await the_primary(nimble)
    (heir,) = (one for one in of_set(nimble, "rs0") if one not in (victim, primary))
    assert await fault(nimble, victim, "move-tags").available() == (
        f"{victim.name} does not bear any tag: it bears none"
    )
    async with admin.connected(primary.host) as connection:
        await admin.move_tags(connection, {victim.host: {"use": "lookup", "zone": "a"}, heir.host: {"zone": "b"}})
    try:
        for form, said in {
            "move-tags tags=use=backup": "does not bear use=backup: it bears use=lookup,zone=a",
            f"move-tags to={victim.name}": f"from {victim.name}: {victim.name} is not another one of it",
        }.items():
            assert said in str(await fault(nimble, victim, form).available())
        async with struck(nimble, victim, f"move-tags tags=use=lookup to={heir.name}", tmp_path) as blow:
            assert await reader(nimble) == victim.host
            await blow.injection.inject()
            assert await reader(nimble) == heir.host
            assert (await configured(nimble, heir))["tags"] == {"use": "lookup", "zone": "b"}
            assert (await configured(nimble, victim))["tags"] == {"zone": "a"}
            for _time in range(2):
                await blow.undo_from_records_alone()
            assert await reader(nimble) == victim.host
        assert (await configured(nimble, heir))["tags"] == {"zone": "b"}
    finally:
        async with admin.connected(primary.host) as connection:
            await admin.move_tags(connection, {victim.host: {}, heir.host: {}})


async def reader(cluster: OwnCluster) -> str:
    """Who serves reads from the member with the tag."""
    async with cluster.client() as client:
        tagged = client.get_database("admin", read_preference=Secondary([{"use": "lookup"}]))
        # A hello that goes where reads go.
        served_by = str((await tagged.command("hello", read_preference=tagged.read_preference))["me"])

        async def connected() -> bool:
            return len(client.nodes) == len(cluster.members)

        # A connection that is under way when the client is closed is leaked by pymongo 4.20.
        await admin.until("all members are known", connected, deadline=10)
        return served_by


@pytest.mark.parametrize("form", ON_SECONDARIES)
async def test_a_primary_is_no_target_of_what_is_for_secondaries(nimble: OwnCluster, form: str) -> None:
    primary = await the_primary(nimble)
    assert await fault(nimble, primary, form).available() in (
        f"{primary.name} is the primary of rs0: aim at a secondary",
        f"{primary.name} is no secondary: nothing is replicated to it",
    )


@pytest.mark.parametrize("form", [*ON_SECONDARIES, "step-down", "move-tags"])
async def test_a_member_that_does_not_answer_is_no_target(
    nimble: OwnCluster, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.direct.ANSWER", 0.3)
    victim = await a_secondary(nimble)
    victim.freeze()
    try:
        assert "cannot be asked" in str(await fault(nimble, victim, form).available())
    finally:
        victim.thaw()


@pytest.mark.parametrize("form", ["hide-member", "remove-member", "move-tags", "step-down"])
async def test_a_router_is_in_no_set(nimble: OwnCluster, form: str) -> None:
    router = LocalMember(ROUTER, "127.0.0.1:1", [], Path("/nowhere"), "no token")
    assert await fault(nimble, router, form).available() == "router is in no replica set"


@pytest.mark.parametrize("form", [*ON_SECONDARIES, "step-down"])
async def test_what_did_not_happen_in_the_set_is_not_proven(
    nimble: OwnCluster, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_any: Any) -> None:
        return

    module = f"faults.{form.partition(' ')[0].replace('-', '_')}"
    for name in ("faults.failpoint.FailPoint.on", "faults.configuration.Configuration.change"):
        monkeypatch.setattr(name, nothing)
    for name in ("PROOF_DEADLINE", "INSTALLED_DEADLINE"):
        monkeypatch.setattr(f"{module}.{name}", 0.3, raising=False)
    monkeypatch.setattr("faults.configuration.INSTALLED_DEADLINE", 0.3)
    if form == "step-down":
        monkeypatch.setattr("faults.step_down.StepDown.inject", nothing)
    victim = await (the_primary if form == "step-down" else a_secondary)(nimble)
    async with struck(nimble, victim, form, tmp_path) as blow:
        with pytest.raises(Unproven):
            await blow.injection.inject()
