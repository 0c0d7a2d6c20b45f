"""The incident at its true size: one shard of 18 members, 32 streams, no tags; chance alone freezes nearly all."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt

import pytest

from aftermath import Place
from harness import exits
from stall_parts import Outcome, run

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.matrix]

STREAMS = 32
SECONDARIES = 17
GIB_6 = 6 * 1024
ALLOWED = sqrt(log(2 / 0.001) / (2 * STREAMS))
"""The distance of the curves that chance exceeds once in a thousand runs; the run itself judges by once in twenty."""


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    place = Place(tmp_path_factory.mktemp("size"))
    size = ("--members", str(SECONDARIES + 1), "--streams", str(STREAMS), "--target", "secondary", "--rate", "10")
    try:
        yield run(place, *size, "--fault", "hang-after-command", "--hold", "30s")
        assert place.left_after(1.0) == []
    finally:
        place.end()


@pytest.mark.timeout(450)
def test_at_least_30_of_32_streams_stall_and_lose_nothing(incident: Outcome) -> None:
    assert incident.code == exits.AS_EXPECTED, incident.out + incident.err
    assert incident.result["parameters"]["shards"] == 1
    assert incident.result["counts"]["stalled"] >= 30
    for stream in incident.result["streams"]:
        assert stream["error_count"] == 0
        delivery = stream["delivery"]
        assert delivery["required"] == delivery["delivered"] > 100
        assert delivery["doubled"] == delivery["out_of_order"] == delivery["missing"] == 0


def test_they_freeze_as_fast_as_lookups_at_one_of_17_members_would_by_chance(incident: Outcome) -> None:
    evidence = incident.finding("share")["evidence"]
    assert evidence["window_sizes"] == [SECONDARIES]
    assert evidence["streams"] >= STREAMS / 2
    assert evidence["distance"] <= ALLOWED
    last = evidence["rows"][-1]
    assert last["predicted"] > 0.99
    assert "1-(1-1/N)^n, N=17" in incident.out


def test_it_fits_into_6_gib_and_says_what_it_took(incident: Outcome) -> None:
    usage = incident.result["usage"]
    assert usage["processes"] == {"members": SECONDARIES + 3, "router": 1, "harness": 1}
    assert 2 * 1024 < usage["peak_rss_mib"]["all"] < GIB_6
    assert usage["cores"]["hold"]["members"] > 0.1
    assert "memory at most" in incident.out


def test_the_settling_of_the_selection_is_a_phase_of_its_own_and_the_run_takes_less_than_five_minutes(
    incident: Outcome,
) -> None:
    timings = incident.result["timings"]
    assert timings["load"] < timings["settle"] < timings["break"]
    assert timings["end"] < 300
