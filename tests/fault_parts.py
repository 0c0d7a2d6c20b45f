"""A fault on one member of a cluster in a test: made from a form such as `kill restart=no`, undone whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from pymongo.errors import OperationFailure

import faults
from clusters import admin
from clusters.cluster import of_set, primary_of
from clusters.guard import Ledger
from clusters.local import OwnCluster
from clusters.member import LocalMember, Member
from faults import Site
from faults.base import Injection
from faults.options import parse
from harness import stage

NAMESPACE = "injured.things"


def slow(*forms: str) -> list[ParameterSet]:
    """These as parameters of a test, for the long round only."""
    return [pytest.param(one, marks=pytest.mark.slow) for one in forms]


def fault(cluster: OwnCluster, target: Member, form: str, namespace: str | None = NAMESPACE) -> faults.Fault:
    name, *options = form.split()
    kind = faults.by_name(name)
    return kind(Site(cluster, target, namespace), parse(name, kind.options, options))


async def the_primary(cluster: OwnCluster) -> LocalMember:
    return cluster.members[(await primary_of(cluster, "rs0")).name]


async def a_secondary(cluster: OwnCluster) -> LocalMember:
    primary = await the_primary(cluster)
    (*_others, member) = (one for one in of_set(cluster, "rs0") if one is not primary)
    return cluster.members[member.name]


async def whole(cluster: OwnCluster) -> None:
    """As it was brought up: every member caught up, and the one of the highest priority is the primary."""
    await stage.recovered(cluster)
    async with cluster.members["rs0-0"].client() as client:

        async def primary() -> bool:
            if (await client.admin.command("hello"))["isWritablePrimary"]:
                return True
            # It would take over by itself, later; it may lose an election while it is behind.
            with suppress(OperationFailure):
                await client.admin.command({"replSetFreeze": 0})
                await client.admin.command("replSetStepUp")
            return False

        await admin.until("rs0-0 is the primary again", primary, deadline=30, every=0.1)
    await stage.recovered(cluster)


@dataclass
class Blow:
    """A fault that `struck` carries out."""

    fault: faults.Fault
    injection: Injection
    ledger: Path

    def records(self) -> list[str]:
        return [str(one.undo) for one in Ledger.load(self.ledger).open_records()]

    async def undo_from_records_alone(self) -> None:
        for record in reversed(Ledger.load(self.ledger).open_records()):
            await asyncio.to_thread(record.undo.undo, 10)


@asynccontextmanager
async def struck(cluster: OwnCluster, target: Member, form: str, directory: Path) -> AsyncIterator[Blow]:
    """Available, and then as the test goes on; at the end healed, its record closed, and the set whole."""
    one = fault(cluster, target, form)
    assert await one.available() is None
    injection = Injection(one, Ledger.create(directory / "ledger"), guarded=lambda: True)
    blow = Blow(one, injection, directory / "ledger")
    try:
        yield blow
    finally:
        await injection.heal()
        await whole(cluster)
    assert blow.records() == []
    # A restart has nothing to heal: what is held is the new life, which goes on.
    assert one.name == "restart" or not await one.active()
