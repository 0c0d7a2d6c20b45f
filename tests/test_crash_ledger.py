"""A ledger that is cut off or damaged while a fault is on: what can be read of it is healed, and the rest is named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aftermath import Place, healed_after_a_kill, kept_cluster, kill_with_guardian, wait_for
from harness import exits

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With a replica set that outlives whoever breaks it."""
    with kept_cluster(
        tmp_path_factory.mktemp("ledger"), "set", "--replica-set", "--members", "1", gone_within=1.0
    ) as one:
        yield one


def freezing(place: Place) -> tuple[subprocess.Popen[str], int, Path]:
    """One that holds a member frozen, its guardian's pid, and the lines of its ledger."""
    process = place.start("fault", "freeze", "--cluster", "set", "--on", "any", "--hold", "60s")
    wait_for(["held for"], process, 60)
    assert frozen(place) == 1
    (guardian,) = (pid for pid in place.processes() if b"clusters.guard" in Path(f"/proc/{pid}/cmdline").read_bytes())
    (ledger,) = place.root.glob("state/ledgers/fault-*/ledger.jsonl")
    return process, guardian, ledger


def frozen(place: Place) -> int:
    return list(place.processes().values()).count("T")


def tear(ledger: Path) -> None:
    with ledger.open("ab") as file:
        file.write(b'{"open": 99, "scope": "fault", "ti')


def test_a_last_line_that_is_cut_off_is_named_and_what_stands_before_it_is_healed(place: Place) -> None:
    process, guardian, ledger = freezing(place)
    kill_with_guardian(process, guardian)
    tear(ledger)
    done = place.run("heal")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    assert f"{ledger}: the last line is cut off after 34 bytes" in done.stdout
    assert "SIGCONT" in done.stdout
    assert frozen(place) == 0
    assert place.run("heal").stdout == "nothing to heal\n"


@pytest.mark.slow
def test_the_guardian_heals_by_a_ledger_whose_last_line_is_cut_off(place: Place) -> None:
    process, _guardian, ledger = freezing(place)
    tear(ledger)
    process.kill()
    process.communicate()
    healed_after_a_kill(place, "set")
    assert frozen(place) == 0


@pytest.mark.slow
def test_a_line_that_cannot_be_read_is_named_and_all_others_are_healed(place: Place) -> None:
    process, guardian, ledger = freezing(place)
    kill_with_guardian(process, guardian)
    header, *lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join([header, '{"open": 0, "sco#!', *lines, ""]))
    done = place.run("heal")
    assert done.returncode == exits.UNKNOWN
    assert "SIGCONT" in done.stdout
    (named,) = (line for line in done.stdout.splitlines() if "not undone" in line)
    assert "what this line says is not known" in named
    assert f"{ledger}:2: expected a line of a ledger, found" in named
    assert frozen(place) == 0
    assert place.run("heal").stdout == "nothing to heal\n"


@pytest.mark.slow
def test_a_kept_cluster_whose_ledger_is_damaged_is_not_broken_any_more_but_can_be_taken_down(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        assert place.run("up", "--name", "hurt", "--replica-set", "--members", "1").returncode == exits.AS_EXPECTED
        with (place.root / "state/ledgers/hurt/ledger.jsonl").open("a") as file:
            file.write("garbage\n")
        refused = place.run("fault", "freeze", "--cluster", "hurt", "--on", "any", "--hold", "1s")
        assert refused.returncode == exits.REFUSED
        assert "what is open on cluster 'hurt' is not known" in refused.stderr
        assert refused.stderr.strip().endswith("mongofault down hurt")
        assert place.run("down", "hurt").returncode == exits.AS_EXPECTED
        assert place.left_after(2.0) == []
    finally:
        place.end()
