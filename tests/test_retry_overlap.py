"""Retrying writers against a server that stalls, as a user runs it: what is sent, what runs, and what is left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aftermath import Place
from harness import exits
from retry_overlap_parts import FROZEN, IN_ENGINE, SCENARIO, at_once, counted, documents, rows, run, totals, valid
from stall_parts import Outcome, outcome

pytestmark = pytest.mark.live

SOON = ("--driver-option", "socketTimeoutMS=300")


AWAKENINGS = 8
"""Runs until an old primary that is thawed writes before it learns of its successor: which comes first is chance. On
a quiet machine it was told first in three runs of five, and all copies ended without an effect (6.0.5)."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("overlap"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def two(place: Place) -> Iterator[tuple[Outcome, Outcome]]:
    """Two runs at once: writes held before the engine, by pymongo; and inside of it, by motor."""
    processes = [
        place.start(*SCENARIO, *SOON),
        place.start(*SCENARIO, *SOON, "--fault", "fail-point", "--driver", "motor"),
    ]
    before, inside = (outcome(place, one) for one in processes)
    yield before, inside
    assert place.left_after(1.0) == []


@pytest.mark.parametrize("which", [0, 1], ids=["before the engine", "inside the engine, motor"])
def test_four_executions_are_eight_sends_four_copies_and_four_documents(
    two: tuple[Outcome, Outcome], which: int
) -> None:
    done = two[which]
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    assert done.result["outcome"] == "maximum"
    assert counted(done) == (4, 8, 4, 4)
    assert sorted(one["execution"] for one in documents(done)) == [1, 2, 3, 4]
    assert set(valid(done).values()) == {True}
    assert done.result["driver"]["name"] == ("pymongo", "motor")[which]


def test_copies_are_at_once_where_they_are_held_inside_the_engine(two: tuple[Outcome, Outcome]) -> None:
    assert at_once(two[1]) == (4, 4)


def test_prediction_and_measurement_stand_in_one_table(two: tuple[Outcome, Outcome]) -> None:
    lines = [" ".join(line.split()) for line in two[1].out.splitlines()]
    assert "of each write predicted at most measured at most reached by" in lines
    assert "executions 4 4 1 of 1" in lines
    assert "sends 8 8 1 of 1" in lines
    assert "copies at once in the engine 4 4 1 of 1" in lines
    assert any(line.startswith("give-up 2.4 s") for line in lines)


def test_the_text_names_each_term_between_the_taps_count_and_the_servers(two: tuple[Outcome, Outcome]) -> None:
    for done in two:
        assert (
            "rs0-0, read after the release: 8 at the tap + 0 of the server's own = 8 in its counters + "
            "0 rejected by fail points + 0 never read + 0 in flight"
        ) in done.out
        assert (
            "rs0-0: 4 carried out = 8 in its counters - 0 failed - 4 answered from their session's record" in done.out
        )


def test_the_text_says_what_the_sampler_saw_and_how_often_it_looked(two: tuple[Outcome, Outcome]) -> None:
    found = re.search(r"sampled: (\d) of 4 copies at once seen in the engine \(\d+%\), .* at most (\S+) s", two[1].out)
    assert found, two[1].out
    assert 1 <= int(found[1]) <= 4
    assert float(found[2]) > 0


def test_a_stored_record_gives_the_same_verdict(two: tuple[Outcome, Outcome], place: Place) -> None:
    again = place.run("check", str(two[0].record), "--json")
    assert again.returncode == two[0].code
    assert json.loads(again.stdout) == {**two[0].result, "record": str(two[0].record)}


def test_a_record_with_a_send_removed_by_hand_does_not_add_up(
    two: tuple[Outcome, Outcome], place: Place, tmp_path: Path
) -> None:
    lines = (two[0].record / "history.jsonl").read_text().splitlines(keepends=True)
    lines.remove(next(line for line in lines if '"kind":"send"' in line))
    (tmp_path / "history.jsonl").write_text("".join(lines))
    again = place.run("check", str(tmp_path))
    assert again.returncode == exits.NOT_AS_EXPECTED
    assert "the tap read 2, the driver wrote 1: 1 sent by another" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retry", "consumers", "sends", "copies"),
    [
        pytest.param("spring-default", 1, 20, 10, id="10x1", marks=pytest.mark.matrix),
        pytest.param("fixed(0s,3)", 5, 40, 20, id="4x5", marks=pytest.mark.matrix),
        pytest.param("spring-default", 3, 60, 30, id="10x3"),
    ],
)
def test_what_the_settings_allow_at_most_is_reached_exactly(
    place: Place, retry: str, consumers: int, sends: int, copies: int
) -> None:
    done = run(place, *IN_ENGINE, "--retry", retry, "--consumers", str(consumers))
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["outcome"] == "maximum"
    assert counted(done) == (copies, sends, copies, copies)
    assert at_once(done) == (copies // consumers, copies)
    assert len(documents(done)) == copies


@pytest.mark.slow
def test_without_retryable_writes_there_is_one_send_for_each_copy(place: Place) -> None:
    done = run(place, *IN_ENGINE, "--driver-option", "retryWrites=false")
    assert done.code == exits.AS_EXPECTED, done.out
    assert counted(done) == (4, 4, 4, 0)
    assert at_once(done) == (4, 4)
    assert len(documents(done)) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "left", "copies"),
    [
        pytest.param("insert", 4, 4, marks=pytest.mark.matrix),
        ("insert-business-id", 1, 7),
        pytest.param("inc", 1, 4, marks=pytest.mark.matrix),
    ],
)
def test_what_a_frozen_primary_is_sent_runs_once_it_goes_on(place: Place, write: str, left: int, copies: int) -> None:
    done = run(place, *FROZEN, "--write", write)
    assert done.code == exits.AS_EXPECTED, done.out
    assert counted(done)[:2] == (4, 8)
    found = documents(done)
    assert len(found) == left
    assert [one.get("qty") for one in found] == [20 if write == "inc" else None] * left
    # Of these all but the first failed on their key, left no record of it, and ran again.
    assert totals(done)["copies"] == copies


@pytest.mark.slow
def test_with_a_cold_pool_a_frozen_primary_is_sent_less(place: Place) -> None:
    done = run(place, *FROZEN, "--pool", "cold")
    assert done.code == exits.AS_EXPECTED, done.out
    # What has to dial first gets no handshake: it fails before it is sent, or is sent once the server goes on.
    sends = totals(done)["sends"]
    assert totals(done)["executions"] > 1
    assert 1 <= sends < 2 * totals(done)["executions"]
    assert len(documents(done)) == totals(done)["copies"] <= sends


@pytest.mark.slow
def test_replies_that_never_come_make_copies_one_after_the_other(place: Place) -> None:
    done = run(place, "--fault", "swallow", "--driver-option", "socketTimeoutMS=500")
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["outcome"] == "no overlap"
    assert counted(done) == (4, 8, 4, 4)
    assert at_once(done) == (1, 1)
    assert len(documents(done)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("write", ["insert", "w0"])
def test_requests_whose_connection_a_fail_point_closes_leave_nothing(place: Place, write: str) -> None:
    options = ("commands=insert", "closeConnection=yes", "namespace=watched")
    done = run(place, "--write", write, *(part for one in options for part in ("--fault-option", one)))
    assert done.code == exits.AS_EXPECTED, done.out
    sends = totals(done)["sends"]
    assert sends == (8 if write == "insert" else 1)
    assert documents(done) == []
    assert f"{sends} at the tap + 0 of the server's own = 0 in its counters + {sends} rejected by" in done.out
    assert done.finding("effects")["evidence"]["lost_unacknowledged"] == (0 if write == "insert" else 1)


@pytest.mark.slow
def test_on_a_sharded_cluster_what_the_shard_runs_is_counted_there(place: Place) -> None:
    done = run(place, *IN_ENGINE, "--shards", "2")
    assert done.code == exits.AS_EXPECTED, done.out
    assert counted(done) == (4, 8, 4, 4)
    assert at_once(done) == (4, 4)
    assert len(documents(done)) == 4
    assert "router: 8 at the tap; it sends them on to the shards" in done.out
    assert "shard0-0, read after the release: 8 in its log = 8 in its counters + 0 rejected" in done.out


@pytest.mark.slow
def test_one_explicit_session_runs_its_copies_one_after_the_other(place: Place) -> None:
    done = run(place, *IN_ENGINE, "--explicit-session")
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["outcome"] == "no overlap"
    assert (totals(done)["sends"], totals(done)["groups"]) == (8, 4)
    assert at_once(done) == (1, 1)
    assert "rule: one explicit session: its copies run one after the other" in done.out


@pytest.mark.slow
def test_with_a_time_limit_for_the_whole_a_server_that_hangs_is_sent_one_request(place: Place) -> None:
    done = run(place, "--driver-option", "timeoutMS=1500", "--fault", "fail-point")
    assert done.code == exits.AS_EXPECTED, done.out
    assert rows(done)["sends"][0] is None
    assert totals(done)["sends"] == totals(done)["executions"] == 4
    assert "no bound" in done.out


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_a_failover_undoes_what_the_old_primary_did_and_the_text_names_it(place: Place) -> None:
    options = ("--members", "3", "--election-timeout", "5s", "--fault", "freeze", "--hold", "25s")
    for _ in range(AWAKENINGS):
        done = run(place, *options)
        assert done.code == exits.AS_EXPECTED, done.out
        rolled_back = done.finding("effects")["evidence"]["rolled_back"]
        assert len(documents(done)) == totals(done)["effective"] - rolled_back
        if totals(done)["effective"]:
            break
    assert rolled_back >= 1
    assert "had another election" in done.out
    assert "rolled back by the failover: orders/0/0 executions" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["7", pytest.param("8", marks=pytest.mark.matrix)])
def test_under_a_fault_that_comes_and_goes_every_record_is_processed_or_dead_and_duplicates_are_copies(
    place: Place, seed: str
) -> None:
    options = ("--consumers", "10", "--records", "200", "--rate", "10", "--every", "5s", "--fault", "fail-point")
    done = outcome(place, place.start("run", "retry-overlap", "--seed", seed, *options, *SOON, "--write", "inc"))
    assert done.code == exits.AS_EXPECTED, done.out
    found = done.finding("records")["evidence"]
    assert found["records"] == 200
    assert found["processed"] + found["dead"] - found["both"] == 200
    assert found["lost"] == found["unexplained"] == 0
    assert found["duplicates"] > 0
    assert [one["id"] for one in done.result["faults"]] == ["f1", "f2", "f3"]
    assert all(one["proven"] and one["healed"] and one["recovered"] for one in done.result["faults"])
    assert sum(one.get("qty", 0) for one in documents(done)) == 5 * totals(done)["effective"]


@pytest.mark.slow
def test_primaries_that_freeze_one_after_the_other_lose_no_record_and_the_counts_agree(place: Place) -> None:
    options = ("--members", "3", "--election-timeout", "1s", "--fault", "freeze", "--every", "4s", "--consumers", "5")
    done = outcome(place, place.start(*SCENARIO[:-1], "3", *options, *SOON, "--records", "300"))
    assert done.code == exits.AS_EXPECTED, done.out
    assert "had another election" in done.out
    assert len(done.result["faults"]) == 3
    assert valid(done)["counts"] is True
    found = done.finding("records")["evidence"]
    assert found["processed"] + found["dead"] - found["both"] == found["records"] == 300
    assert found["unexplained"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retry", "executions", "fault"),
    [
        ("fixed(0s,3)", 4, "fail-command"),
        pytest.param("spring-default", 10, "fail-point", marks=pytest.mark.matrix),
    ],
)
def test_a_prediction_for_settings_holds_in_a_run_of_a_thirtieth_of_their_time(
    place: Place, retry: str, executions: int, fault: str
) -> None:
    uri = "mongodb://db/?socketTimeoutMS=30000&retryWrites=true"
    asked = place.run("predict", "--uri", uri, "--retry", retry, "--write", "bulk-ordered", "--json")
    predicted = json.loads(asked.stdout)
    assert predicted["assumed"]["sends"] == 2 * executions
    options = ("--fault", fault, "--retry", retry, "--write", "bulk-ordered")
    done = run(place, *options, "--driver-option", "socketTimeoutMS=1000")
    assert done.code == exits.AS_EXPECTED, done.out
    found = totals(done)
    for name in ("executions", "sends", "copies"):
        assert found[name] == predicted["at_most"]["record"][name], name
    give_up = done.finding("prediction")["evidence"]["give_up"]["measured"]
    assert give_up == pytest.approx(predicted["assumed"]["give_up"] / 30, rel=0.1)
