"""The plugin in a project of its own: clusters shared, emptied, replaced; faults and watches from any kind of test."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aftermath import Place

ROOT = Path(__file__).parent.parent
DEADLINE = 170.0

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
mongofault_members = 1
addopts = -p no:cacheprovider
"""

LENT = """
import asyncio, os, signal, time
import pytest

names = []

def test_one_writes(mongofault_replica_set):
    names.append(mongofault_replica_set.name)
    with mongofault_replica_set.sync_client() as client:
        client.shop.orders.insert_one({})

async def test_the_next_has_the_same_cluster_and_finds_it_empty(mongofault_replica_set):
    assert mongofault_replica_set.name == names[0]
    async with mongofault_replica_set.client() as client:
        assert "shop" not in await client.list_database_names()
        assert (await client.admin.command("hello"))["setName"] == "rs0"

def test_a_fault_acts_within_its_block_in_a_sync_test(mongofault_replica_set, mongofault_fault):
    member = mongofault_replica_set.members["rs0-0"]
    with mongofault_fault("freeze", on="primary") as [proof]:
        assert member.frozen() and "rs0-0" in proof.statement
    assert not member.frozen()

@pytest.mark.asyncio(loop_scope="module")
async def test_and_in_an_async_one_where_a_watch_sees_what_it_silences(
    mongofault_fault, mongofault_stream_watch, mongofault_history, mongofault_replica_set
):
    async with mongofault_replica_set.client() as client, mongofault_stream_watch() as watch:
        stream = await client.shop.orders.watch(comment="orders", max_await_time_ms=500)
        reading = asyncio.create_task(stream.next())
        await watch.until_watched("orders", within=60)
        async with mongofault_fault("freeze", on="primary"):
            [silent] = await watch.until_silent(within=60)
        assert (silent.stream, silent.member, silent.waits_for) == ("orders", "rs0-0", "rs0-0")
        await watch.until_none_silent(within=60)
        await client.shop.orders.insert_one({"_id": 1})
        assert (await reading)["documentKey"] == {"_id": 1}
    kinds = [one.kind for one in mongofault_history.events()]
    assert [one for one in kinds if one in ("fault.proven", "alarm", "fault.healed", "alarm.cleared")] == [
        "fault.proven", "alarm", "fault.healed", "alarm.cleared"
    ]

def test_a_block_that_is_never_left_is_left_after_the_test(mongofault_fault, mongofault_replica_set):
    mongofault_fault("freeze", on="primary").__enter__()

def test_one_ends_a_member(mongofault_replica_set):
    assert mongofault_replica_set.name == names[0]
    assert not mongofault_replica_set.members["rs0-0"].frozen()
    member = mongofault_replica_set.members["rs0-0"]
    os.kill(member.process.pid, signal.SIGKILL)
    while member.running():
        time.sleep(0.01)

def test_the_next_has_another_cluster(mongofault_replica_set, mongofault_fault):
    assert mongofault_replica_set.name != names[0]
    with mongofault_replica_set.sync_client() as client:
        client.shop.orders.insert_one({})
    with mongofault_fault("freeze", on="primary"):
        raise AssertionError("made to fail")

@pytest.mark.mongofault(shard=1)
def test_a_marker_that_cannot_be(mongofault_cluster):
    pass

def test_a_fault_that_cannot_be(mongofault_replica_set, mongofault_fault):
    with mongofault_fault("freeze", on="nobody"):
        pass
"""

DOCUMENTED = (ROOT / "docs/pytest.md").read_text().split("```py\n")[2].partition("```")[0]
"""The second of its examples; the first is a project's only file in test_pytest_wheel.py."""


@dataclass
class Ran:
    """A session of pytest that ended."""

    out: str
    cases: dict[str, xml.Element]
    place: Place

    def outcome(self, case: str) -> str:
        return next((one.tag for one in self.cases[case] if one.tag in ("failure", "error", "skipped")), "passed")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    place = Place(tmp_path_factory.mktemp("plugin"))
    project = place.root / "project"
    project.mkdir()
    (project / "pytest.ini").write_text(SETTINGS)
    (project / "test_lent.py").write_text(LENT)
    (project / "test_documented.py").write_text(DOCUMENTED)
    command = [sys.executable, "-m", "pytest", "--junitxml=out.xml", "-p", "no:randomly", "."]
    try:
        done = subprocess.run(
            command, cwd=project, env=place.environment, capture_output=True, text=True, timeout=DEADLINE
        )
        assert (project / "out.xml").exists(), done.stdout + done.stderr
        cases = {str(one.get("name")): one for one in xml.parse(project / "out.xml").iter("testcase")}
        yield Ran(done.stdout, cases, place)
    finally:
        place.end()


FAILING = {
    "test_the_next_has_another_cluster": "failure",
    "test_a_marker_that_cannot_be": "error",
    "test_a_fault_that_cannot_be": "failure",
}
CASES = re.findall(r"^(?:async )?def (test_\w+)", LENT + DOCUMENTED, re.MULTILINE)


@pytest.mark.live
@pytest.mark.parametrize("case", CASES)
def test_a_test_of_the_project_comes_out_as_it_should(ran: Ran, case: str) -> None:
    assert ran.outcome(case) == FAILING.get(case, "passed"), ran.out


@pytest.mark.live
def test_a_test_that_fails_names_its_record_and_its_faults_and_no_other_leaves_one(ran: Ran) -> None:
    (named,) = [one.get("value") for one in ran.cases["test_the_next_has_another_cluster"].iter("property")]
    assert named is not None
    assert f"report: {named}" in ran.out
    assert Path(named).is_file()
    assert "fault: freeze on rs0-0, proven: process of rs0-0 is in state T, healed" in ran.out
    runs = sorted(one.name.split("-")[1] for one in (ran.place.root / "project/runs").iterdir())
    assert runs == ["test_a_fault_that_cannot_be", "test_the_next_has_another_cluster"]


@pytest.mark.live
def test_what_cannot_be_is_said_in_one_line(ran: Ran) -> None:
    assert "mongofault: @pytest.mark.mongofault(shard=..): it takes members=.., proxied=.., shards=.." in ran.out


@pytest.mark.live
def test_a_cluster_that_was_replaced_is_named_and_nothing_is_left(ran: Ran) -> None:
    assert "was replaced after test_lent.py::test_one_ends_a_member: rs0-0 is not running" in ran.out
    assert ran.place.left_after(10) == []


def test_a_project_that_does_not_use_it_does_not_import_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    rooms = {'pymongo', 'bson', 'pydantic', 'clusters', 'faults', 'harness', 'mongofault'}\n"
        "    print('imported', sorted(rooms & set(sys.modules)))\n"
    )
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--fixtures", "-q", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "mongofault_stream_watch" in done.stdout
    assert "imported []" in done.stdout
