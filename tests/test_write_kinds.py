"""Kinds of writes: what each sends, whether the driver sends it twice, and what is left of its executions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import AutoReconnect, DuplicateKeyError

from clusters.local import LocalCluster
from harness.drivers.clients import Driver, close_client, open_client, start_session
from harness.drivers.kinds import BULK, KINDS, MANY, QTY, Kind, Left, WriteOptions, kind, shown
from write_parts import Heard, documents_of, failing, struck, struck_more_than

WRITE = "orders/0/7"
EVERY = [pytest.param(one, id=one.name) for one in KINDS.values()]
every_kind = pytest.mark.parametrize("one", EVERY)
both_drivers = pytest.mark.parametrize("driver", ["pymongo", "motor"])


@dataclass(frozen=True)
class Place:
    """A collection of its own and a client for it, of whichever driver the test is for."""

    cluster: LocalCluster
    namespace: str
    client: Any
    heard: Heard

    @property
    def app_name(self) -> str:
        return f"kinds {self.namespace}"

    @property
    def collection(self) -> Any:
        database, _, name = self.namespace.partition(".")
        return self.client[database][name]

    async def prepare(self, one: Kind) -> None:
        if documents := one.preparation(WRITE):
            await self.collection.insert_many(documents)
        self.heard.commands.clear()

    async def execute(self, one: Kind, execution: int, **options: Any) -> dict[str, int] | None:
        return await one.execute(self.collection, WRITE, execution, WriteOptions("run1", **options))

    async def documents(self, at_least: int = 0) -> list[dict[str, Any]]:
        return await documents_of(self.cluster, self.namespace, at_least)


@pytest.fixture
def driver() -> Driver:
    """Of the tests that are not for both."""
    return "pymongo"


@pytest.fixture
async def place(replica_set: LocalCluster, driver: Driver) -> AsyncIterator[Place]:
    namespace = f"kinds.{secrets.token_hex(4)}"
    heard = Heard()
    client = open_client(replica_set.uri, listeners=[heard], app_name=f"kinds {namespace}", driver=driver)
    try:
        yield Place(replica_set, namespace, client, heard)
    finally:
        await close_client(client)
        async with replica_set.client() as plain:
            await plain.kinds.drop_collection(namespace.removeprefix("kinds."))


# --- without a server


LEFT: dict[str, tuple[Left, Left, Left]] = {
    # after no execution, after the first one, after the second and then the first
    "insert": (Left(0), Left(1, None, (1,), 1), Left(2, None, (1, 2))),
    "insert-business-id": (Left(0), Left(1, None, (1,), 1), Left(1, None, (2,), 2)),
    "set": (Left(0), Left(1, None, (1,), 1), Left(1, None, (1,), 1)),
    "inc": (Left(0, 0), Left(1, 5, (1,), 1), Left(1, 10, (1, 2), 1)),
    "replace-upsert": (Left(0), Left(1, None, (1,), 1), Left(1, None, (1,), 1)),
    "find-and-modify": (Left(0, 0), Left(1, 5, (1,), 1), Left(1, 10, (1, 2), 1)),
    "bulk-ordered": (Left(0), Left(3, None, (1, 1, 1), 1), Left(6, None, (1, 1, 1, 2, 2, 2))),
    "bulk-unordered": (Left(0), Left(3, None, (1, 1, 1), 1), Left(6, None, (1, 1, 1, 2, 2, 2))),
    "update-many": (Left(10, 0), Left(10, 50, (1,) * 10, 1), Left(10, 100, (1,) * 10 + (2,) * 10, 1)),
    "delete-many": (Left(10), Left(0), Left(0)),
    "w0": (Left(0), Left(1, None, (1,), 1), Left(2, None, (1, 2))),
}


@every_kind
def test_what_executions_leave_depends_on_which_took_effect_and_in_which_order(one: Kind) -> None:
    assert tuple(one.expected(effective) for effective in ((), (1,), (2, 1))) == LEFT[one.name]


@every_kind
def test_before_the_first_execution_there_is_what_the_kind_prepares(one: Kind) -> None:
    assert one.held(one.preparation(WRITE)) == one.expected(())
    assert len(one.preparation(WRITE)) == one.prepared


@every_kind
def test_a_document_that_was_there_before_and_that_nobody_changed_counts_for_nothing(one: Kind) -> None:
    there = one.preparation(WRITE, there=True)
    assert len(there) == max(one.prepared, one.upserts)
    assert one.held(there) == one.expected(())


@given(st.sampled_from(list(KINDS.values())), st.lists(st.integers(1, 20), max_size=8))
def test_only_what_is_not_idempotent_leaves_more_after_more_executions(one: Kind, effective: list[int]) -> None:
    def amount(left: Left) -> tuple[int, int | None]:
        return left.documents, left.qty

    after_one, after_all = one.expected((1,)), one.expected([1, *effective])
    assert (amount(after_all) == amount(after_one)) is (one.idempotent or not effective)


def test_a_document_is_shown_without_what_the_history_cannot_hold() -> None:
    document = {"_id": object(), "write": WRITE, "execution": 2, "qty": 5, "executions": [1, 2], "other": object()}
    assert shown(document) == {"write": WRITE, "execution": 2, "qty": 5, "executions": [1, 2]}


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="write 'upsert': expected one of insert, insert-business-id, set, inc"):
        kind("upsert")


@every_kind
def test_a_time_limit_is_refused_where_the_driver_has_no_argument_for_it(one: Kind) -> None:
    if one.name == "find-and-modify":
        one.check(session=False, max_time=True)
    else:
        with pytest.raises(ValueError, match="the driver has no maxTimeMS for it; only find-and-modify takes one"):
            one.check(session=False, max_time=True)


def test_an_explicit_session_is_refused_without_acknowledgement() -> None:
    with pytest.raises(ValueError, match="write w0: the driver refuses an explicit session"):
        KINDS["w0"].check(session=True, max_time=False)


# --- on real servers


@pytest.mark.live
@both_drivers
@every_kind
async def test_an_execution_is_one_command_that_names_run_write_and_execution(
    place: Place, one: Kind, driver: Driver
) -> None:
    await place.prepare(one)
    await place.execute(one, 4)
    [command] = place.heard.commands
    assert command["name"] == one.command
    assert command["comment"] == {"run": "run1", "write": WRITE, "execution": 4}
    assert command["writeConcern"] == {"w": "majority" if one.acknowledged else 0}
    assert ("txnNumber" in command) is one.retryable_by_the_driver


EFFECTS: dict[str, tuple[dict[str, int] | None, dict[str, int] | None]] = {
    # of the first and of the second execution; what is left out is 0
    "insert": ({"inserted": 1}, {"inserted": 1}),
    "insert-business-id": ({"inserted": 1}, None),
    "set": ({"upserted": 1}, {"matched": 1, "modified": 1}),
    "inc": ({"upserted": 1}, {"matched": 1, "modified": 1}),
    "replace-upsert": ({"upserted": 1}, {"matched": 1, "modified": 1}),
    "find-and-modify": ({"upserted": 1}, {"matched": 1, "modified": 1}),
    "bulk-ordered": ({"inserted": BULK}, {"inserted": BULK}),
    "bulk-unordered": ({"inserted": BULK}, {"inserted": BULK}),
    "update-many": ({"matched": MANY, "modified": MANY}, {"matched": MANY, "modified": MANY}),
    "delete-many": ({"deleted": MANY}, {}),
    "w0": (None, None),
}


@pytest.mark.live
@both_drivers
@every_kind
async def test_what_is_there_after_executions_is_what_their_kind_expects(
    place: Place, one: Kind, driver: Driver
) -> None:
    await place.prepare(one)
    effective, effects = [], []
    for execution in (1, 2, 3):
        effect = None
        with suppress(DuplicateKeyError):
            effect = await place.execute(one, execution)
            effective.append(execution)
        effects.append(effect and {name: count for name, count in effect.items() if count})
    expected = one.expected(effective)
    assert one.held(await place.documents(expected.documents)) == expected
    assert tuple(effects[:2]) == EFFECTS[one.name]
    if one.name == "insert-business-id":
        assert effective == [1]


@pytest.mark.live
@every_kind
async def test_after_a_lost_connection_the_driver_sends_again_what_is_retryable(place: Place, one: Kind) -> None:
    await place.prepare(one)
    before = await struck(place.cluster)
    async with failing(place.cluster, place.app_name, one.command, {"times": 1}, closeConnection=True):
        if one.retryable_by_the_driver or not one.acknowledged:
            await place.execute(one, 1)
        else:
            with pytest.raises(AutoReconnect) as raised:
                await place.execute(one, 1)
            assert not raised.value.has_error_label("RetryableWriteError")
        # Who waits for no acknowledgement is here before the server has read the write.
        await struck_more_than(place.cluster, before)
    if one.retryable_by_the_driver:
        first, second = place.heard.transactions
        assert first == second
        assert one.held(await place.documents()) == one.expected((1,))
    else:
        assert len(place.heard.commands) == 1
        # Of a write that nobody acknowledges the loss is silent.
        assert one.held(await place.documents()) == one.expected(())


@pytest.mark.live
@both_drivers
async def test_a_find_and_modify_carries_its_time_limit(place: Place, driver: Driver) -> None:
    await place.execute(KINDS["find-and-modify"], 1, max_time_ms=4321)
    assert place.heard.commands[0]["maxTimeMS"] == 4321


@pytest.mark.live
@both_drivers
@pytest.mark.parametrize("name", [name for name in KINDS if name != "w0"])
async def test_an_explicit_session_is_the_one_that_the_command_bears(place: Place, name: str, driver: Driver) -> None:
    one = KINDS[name]
    await place.prepare(one)
    session = await start_session(place.client)
    # Asked for first: a session draws its id when it needs it, perhaps one that another has just given back.
    lsid = session.session_id
    await place.execute(one, 1, session=session)
    assert place.heard.commands[0]["lsid"] == lsid
    await session.end_session()


@pytest.mark.live
async def test_a_write_of_one_member_says_so(place: Place) -> None:
    await place.execute(KINDS["inc"], 1, write_concern=1)
    assert place.heard.commands[0]["writeConcern"] == {"w": 1}
    assert (await place.documents(1))[0]["qty"] == QTY
