"""The plugin's options: clusters kept, one that is up already, fixtures for a whole file, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aftermath import Place, kept_cluster
from harness import exits

pytestmark = [pytest.mark.live, pytest.mark.slow]

WITHIN = 150.0

ON_THEIRS = """
import pytest

def test_it_is_the_one_that_was_given_and_what_is_there_stays(mongofault_replica_set):
    with mongofault_replica_set.sync_client(w="majority") as client:
        assert client.theirs.things.count_documents({}) == 1
        client.shop.orders.insert_one({})

def test_what_the_one_before_wrote_is_gone(mongofault_replica_set, mongofault_fault):
    with mongofault_replica_set.sync_client() as client:
        assert client.theirs.things.count_documents({}) == 1
        assert "shop" not in client.list_database_names()
    with mongofault_fault("freeze", on="primary"):
        pass

@pytest.mark.mongofault(members=3)
def test_more_than_it_has(mongofault_replica_set): ...

def test_a_router(mongofault_cluster): ...
"""

FOR_A_FILE = """
import pytest

pytestmark = pytest.mark.mongofault(members=1)

@pytest.fixture(scope="module")
def orders(mongofault_replica_set):
    with mongofault_replica_set.sync_client() as client:
        client.shop.orders.insert_one({"_id": 1})
        yield client.shop.orders

def test_one(orders): orders.insert_one({"_id": 2})

def test_the_next_sees_what_it_wrote(orders, mongofault_fault):
    assert orders.count_documents({}) == 2
    with mongofault_fault("freeze", on="primary"):
        pass
"""

THE_NEXT_FILE = """
import pytest

pytestmark = pytest.mark.mongofault(members=1)

def test_another_file_finds_it_empty(mongofault_replica_set):
    with mongofault_replica_set.sync_client() as client:
        assert "shop" not in client.list_database_names()
"""

STALLED = """
import time
from pathlib import Path
import pytest

@pytest.mark.mongofault(members=1)
def test_stalled(mongofault_replica_set, mongofault_fault):
    with mongofault_fault("freeze", on="primary"):
        Path("stalled").touch()
        time.sleep(600)
"""


def started(place: Place, *options: str, **files: str) -> subprocess.Popen[str]:
    directory = place.root / "project"
    directory.mkdir(exist_ok=True)
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={place.root / 'base'}", *options]
    return subprocess.Popen(
        command,
        cwd=directory,
        env=place.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Where the tests run in the background they ignore Ctrl-C, and so would this one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ran(place: Place, *options: str, **files: str) -> tuple[int, str]:
    with started(place, *options, **files) as process:
        out = finished(process)
    return process.returncode, out


def finished(process: subprocess.Popen[str]) -> str:
    """What it printed."""
    try:
        return process.communicate(timeout=WITHIN)[0]
    except BaseException:
        process.kill()
        raise


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    try:
        yield one
    finally:
        one.end()


def test_a_cluster_that_is_up_is_used_and_what_was_there_before_is_left_alone(tmp_path: Path) -> None:
    with kept_cluster(tmp_path, "theirs", "--replica-set", "--members", "1") as place:
        listed = json.loads(place.run("ls", "--json").stdout)
        uri = listed[0]["uri"]
        written = place.python(
            "import sys, pymongo\n"
            f"with pymongo.MongoClient({uri!r}, w='majority') as client: client.theirs.things.insert_one({{}})"
        )
        assert written.wait(60) == 0
        code, out = ran(place, "-rs", "--mongofault-uri", uri, "-o", "mongofault_members=1", test_theirs=ON_THEIRS)
        assert (code, "2 passed, 2 skipped" in out) == (0, True), out
        assert "it has 1 members in a set, wanted 3" in out
        assert "it is a plain replica set" in out


def test_clusters_that_are_kept_are_named_and_last_until_they_are_taken_down(place: Place) -> None:
    code, out = ran(
        place, "--mongofault-keep", "-o", "mongofault_scope=module", test_a=FOR_A_FILE, test_b=THE_NEXT_FILE
    )
    assert (code, "3 passed" in out) == (0, True), out
    (kept,) = [line for line in out.splitlines() if " is kept at mongodb://" in line]
    name = kept.split()[0]
    assert list(place.processes().values()) != []
    assert place.run("down", name).returncode == exits.AS_EXPECTED
    assert place.left_after() == []


def test_an_interrupted_session_heals_and_removes_what_it_had_before_it_ends(place: Place) -> None:
    with started(place, test_stalled=STALLED) as process:
        end = time.monotonic() + WITHIN
        while not (place.root / "project/stalled").exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end, f"no fault within {WITHIN:g} s"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out = finished(process)
    assert "KeyboardInterrupt" in out
    assert place.left() == []
