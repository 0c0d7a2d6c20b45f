"""`freeze` stops a member, proves it from the kernel, and is gone when healed: by itself or from its undo record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import faults
from clusters.cluster import primary_of
from clusters.guard import Ledger
from clusters.local import LocalCluster
from clusters.member import LocalMember
from clusters.wire.connection import Connection, DeadlinePassed
from faults.base import Injection, Site, Unproven
from faults.freeze import Freeze

pytestmark = pytest.mark.live


@pytest.fixture
async def victim(replica_set: LocalCluster) -> AsyncIterator[LocalMember]:
    """A secondary; thawed whatever the test did."""
    primary = await primary_of(replica_set, "rs0")
    member = next(one for one in replica_set.members.values() if one is not primary)
    try:
        yield member
    finally:
        member.thaw()


def injection(cluster: LocalCluster, victim: LocalMember, tmp_path: Path, *, guarded: bool = True) -> Injection:
    fault = faults.by_name("freeze")(Site(cluster, victim))
    return Injection(fault, Ledger.create(tmp_path / "ledger"), guarded=lambda: guarded)


async def test_a_frozen_member_accepts_and_answers_nothing(
    replica_set: LocalCluster, victim: LocalMember, tmp_path: Path
) -> None:
    fault = injection(replica_set, victim, tmp_path)
    evidence = await fault.inject()
    assert evidence.fields["state"] == "T"
    assert victim.frozen()
    with pytest.raises(DeadlinePassed, match="no handshake"):
        await Connection.open(victim.host, deadline=0.5)
    await fault.heal()
    assert not victim.frozen()
    (await Connection.open(victim.host, deadline=5)).close()


async def test_how_to_undo_it_is_on_disk_before_it_acts_and_closed_after_the_heal(
    replica_set: LocalCluster, victim: LocalMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Freeze.inject

    async def inject(self: Freeze) -> None:
        (record,) = Ledger.load(tmp_path / "ledger").open_records()
        assert "SIGCONT" in str(record)
        assert not victim.frozen()
        await plain(self)

    monkeypatch.setattr(Freeze, "inject", inject)
    fault = injection(replica_set, victim, tmp_path)
    await fault.inject()
    Ledger.load(tmp_path / "ledger").open_records()[0].undo.undo(5)
    assert not victim.frozen()
    await fault.heal()
    assert Ledger.load(tmp_path / "ledger").open_records() == []


async def test_a_fault_that_did_not_happen_is_not_proven(
    replica_set: LocalCluster, victim: LocalMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalMember, "freeze", lambda _self: None)
    monkeypatch.setattr("faults.freeze.PROOF_DEADLINE", 0.1)
    with pytest.raises(Unproven, match="not in process state T"):
        await injection(replica_set, victim, tmp_path).inject()


async def test_nothing_is_frozen_without_a_guardian(
    replica_set: LocalCluster, victim: LocalMember, tmp_path: Path
) -> None:
    with pytest.raises(Unproven, match="guardian"):
        await injection(replica_set, victim, tmp_path, guarded=False).inject()
    assert not victim.frozen()


async def test_a_member_frozen_by_somebody_else_is_not_a_target(replica_set: LocalCluster, victim: LocalMember) -> None:
    fault = Freeze(Site(replica_set, victim))
    assert await fault.available() is None
    victim.freeze()
    await fault.proof()
    assert await fault.available() == f"{victim.name} is frozen already, and not by this run"
