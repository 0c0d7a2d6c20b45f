"""The stall in every form that production knows, and every way out of it: what was broken looked healthy, the alarm
names it all the same, and each release frees the streams as it should, with exactly the errors that go with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aftermath import Place
from harness import exits
from stall_parts import SCENARIO, Outcome, at_once, outcome

pytestmark = [pytest.mark.live, pytest.mark.alone]

STREAMS = 4
COMMON = ("--streams", str(STREAMS), "--hold", "8s")
FORMS = {
    "freeze": ("--fault", "freeze"),
    "rsSyncApplyStop": ("--fault", "pause-replication"),
    "stopReplProducer": ("--fault", "pause-replication", "--fault-option", "how=stopReplProducer"),
    "fsyncLock": ("--fault", "pause-replication", "--fault-option", "how=fsyncLock"),
    "hang-after-command": ("--fault", "hang-after-command"),
}
RELEASES = ("heal", "kill-member", "kill-op")
Face = tuple[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("faces"))
    yield one
    one.end()


def ran(place: Place, *faces: Face, driver: str = "pymongo") -> None:
    """Run them side by side, and judge each."""
    options = [(*COMMON, *FORMS[form], "--release", release, "--driver", driver) for form, release in faces]
    for (form, release), done in zip(faces, at_once(place, *options), strict=True):
        assert done.code == exits.AS_EXPECTED, done.out + done.err
        assert done.result["counts"] == {"stalled": STREAMS}, done.out
        _judge_alarms(form, done)
        _judge_health(form, done)
        _judge_release(release, done)
    assert place.left_after(1.0) == []


def _judge_alarms(form: str, done: Outcome) -> None:
    assert len(done.result["alarms"]) == STREAMS
    for stream in done.result["streams"]:
        assert stream["alarm"]["waits_for"] == "shard0-2"
        how = "connPoolStats of shard0-1" if form == "freeze" else "lookup in $currentOp of shard0-2"
        assert stream["alarm"]["known_by"].startswith((how, "connPoolStats of shard0-1"))
        assert stream["getmore"]["member"] == "shard0-1"


def _judge_health(form: str, done: Outcome) -> None:
    finding = done.finding("health")
    (row,) = finding["evidence"]["targets"]
    assert row["target"] == "shard0-2"
    if form == "freeze":
        assert finding["valid"] is False
        assert "shard0-2 during the hold looked NOT healthy" in done.out
        return
    assert finding["valid"] is True
    assert "shard0-2 during the hold looked healthy: hello" in done.out
    assert row["hello"]["healthy"] >= 2
    for source in ("heartbeats", "monitor"):
        assert row[source]["looks"] == row[source]["healthy"] >= 2
    assert row["heartbeats"]["by"] == ["shard0-0", "shard0-1"]
    assert row["monitor"]["by"] == ["shard0-1"]
    failing = "aggregate" if form == "hang-after-command" else "causal"
    assert row["probes"][failing]["healthy"] < row["probes"]["find"]["healthy"]


def _judge_release(release: str, done: Outcome) -> None:
    finding = done.finding("release")
    assert finding["valid"] is True
    evidence = finding["evidence"]
    driver, consumer = evidence["resumed_by_driver"], evidence["resumed_by_consumer"]
    if release == "heal":
        assert (evidence["errors"], driver, consumer) == (0, 0, 0)
    elif release == "kill-member":
        assert (evidence["errors"], consumer) == (0, 0)
        assert driver >= STREAMS
    else:
        assert (evidence["errors"], driver, consumer) == (STREAMS, 0, STREAMS)
    for stream in done.result["streams"]:
        assert stream["delivery"]["required"] == stream["delivery"]["delivered"]


@pytest.mark.slow
def test_paused_replication_and_a_held_command_look_healthy_and_are_got_out_of_by_killing_member_or_operations(
    place: Place,
) -> None:
    ran(place, ("rsSyncApplyStop", "kill-member"), ("hang-after-command", "kill-op"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["fsyncLock", *(pytest.param(one, marks=pytest.mark.matrix) for one in FORMS if one != "fsyncLock")]
)
def test_every_fault_stalls_the_streams_and_every_release_frees_them(place: Place, form: str) -> None:
    ran(place, *((form, release) for release in RELEASES))


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize(
    "faces",
    [
        (("freeze", "kill-member"), ("rsSyncApplyStop", "kill-op")),
        (("stopReplProducer", "heal"), ("fsyncLock", "kill-member"), ("hang-after-command", "kill-op")),
    ],
)
def test_motor_stalls_and_is_freed_as_its_successor_is(place: Place, faces: tuple[Face, ...]) -> None:
    ran(place, *faces, driver="motor")


@pytest.mark.slow
def test_a_fault_inside_a_server_whose_injection_does_nothing_makes_the_run_unknown(place: Place) -> None:
    script = (
        "import faults\n"
        "async def nothing(self): pass\n"
        "faults.PauseReplication.inject = faults.HangAfterCommand.inject = nothing\n"
        "from harness.cli import main\n"
        "main({!r})\n"
    )
    forms = [form for form in FORMS if form != "freeze"]
    started = [place.python(script.format([*SCENARIO, "--streams", "1", *FORMS[form]])) for form in forms]
    for done in [outcome(place, process) for process in started]:
        assert done.code == exits.UNKNOWN, done.out + done.err
        assert done.result["verdict"] == "unknown"
        assert "does not fall behind" in done.out or "does not hold an aggregate" in done.out
    assert place.left_after(1.0) == []
