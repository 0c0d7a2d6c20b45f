"""The share of frozen streams against chance: its formula, its band, and what is counted as a lookup."""

from __future__ import annotations

import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checkers import share
from harness.checkers.share import Course, band, measured, predicted
from history_builder import History, judged

SEVENTEEN = [f"shard0-{number}" for number in range(1, 18)]
TARGET = "shard0-5"


def test_the_prediction_is_one_minus_the_chance_to_miss_every_time() -> None:
    courses = [Course(1 / 17, None)] * 32
    assert predicted(courses, 0) == 0
    assert predicted(courses, 1) == pytest.approx(1 / 17)
    assert predicted(courses, 50) == pytest.approx(1 - (16 / 17) ** 50)


def test_streams_with_windows_of_their_own_are_predicted_each_by_its_own() -> None:
    assert predicted([Course(1 / 2, None), Course(1 / 17, None), Course(0.0, None)], 1) == pytest.approx(
        (1 / 2 + 1 / 17) / 3
    )


def test_a_stream_counts_as_frozen_from_the_lookup_on_that_was_not_answered() -> None:
    courses = [Course(0.1, 0), Course(0.1, 4), Course(0.1, None)]
    assert [measured(courses, n) * 3 for n in (0, 1, 4, 5, 1000)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("streams", "chance"), [(32, 0.3), (32, 0.97), (8, 0.5), (1, 0.5), (32, 0.0), (32, 1.0)])
def test_the_band_of_equal_chances_is_the_binomial_one(streams: int, chance: float) -> None:
    probability = [comb(streams, k) * chance**k * (1 - chance) ** (streams - k) for k in range(streams + 1)]
    low, high = (round(share * streams) for share in band([chance] * streams))
    assert sum(probability[:low]) <= 0.025 < sum(probability[: low + 1])
    assert sum(probability[high + 1 :]) <= 0.025 + 1e-12 < sum(probability[high:]) + 1e-12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_band_is_a_band_around_the_mean(chances: list[float]) -> None:
    low, high = band(chances)
    assert 0 <= low <= high <= 1
    assert low <= sum(chances) / len(chances) + 1 / len(chances)
    assert high >= sum(chances) / len(chances) - 1 / len(chances)


def incident(chance: float, *, holder: str = "shard0-1", selection: bool = True) -> History:
    """32 streams, 10 writes a second, a fault from 10 to 40 s: each lookup under it freezes its stream by a chance."""
    source = random.Random(4)
    history = History()
    names = [f"s{number}" for number in range(1, 33)]
    history.add(0.0, "run.started", parameters={"threshold": 3.0, "hold": 30.0, "fault": "freeze"})
    history.phases(load=0.1, settle=4.0, hold=10.1, release=40.0, recover=40.1, **{"break": 10.0})
    for name in names:
        history.opened(0.2, name)
    if selection:
        history.add(4.5, "selection", member=holder, set="shard0", window=SEVENTEEN, streams=names)
    history.add(10.0, "fault.opened", id="f1", fault="freeze", target=TARGET)
    history.add(10.1, "fault.proven", id="f1", evidence={})
    history.add(40.0, "fault.healed", id="f1")
    waiting: dict[str, list[int]] = {}
    for seq in range(1, 401):
        at = 5.05 + seq / 10
        history.write(at, "k", seq)
        for name in names:
            if 10 < at < 40 and name not in waiting and source.random() < chance:
                waiting[name] = []
            if at < 40 and name in waiting:
                waiting[name].append(seq)
                continue
            for late in [*waiting.pop(name, []), seq]:
                history.event(at + 0.02, name, "k", late)
    return history


def test_streams_that_freeze_by_chance_alone_are_within_the_band() -> None:
    finding = judged(share, incident(1 / 17).events())
    assert finding is not None
    assert finding.valid is True
    assert finding.evidence["window_sizes"] == [17]
    assert finding.evidence["streams"] == 32
    rows = {one["seconds"]: one for one in finding.evidence["rows"]}
    assert max(rows) == 20
    assert rows[4]["lookups"] == 40
    assert rows[4]["predicted"] == pytest.approx(1 - (16 / 17) ** 40, abs=0.001)
    assert rows[4]["band"][0] < rows[4]["predicted"] < rows[4]["band"][1]
    assert rows[20]["measured"] == 1.0


def test_streams_that_freeze_much_faster_than_chance_are_not() -> None:
    finding = judged(share, incident(1 / 3).events())
    assert finding is not None
    assert finding.valid is False
    assert "the largest distance is 0." in finding.evidence["problems"][0]


def test_streams_whose_cursor_is_on_the_broken_member_itself_are_left_out() -> None:
    finding = judged(share, incident(1 / 17, holder=TARGET).events())
    assert finding is not None
    assert finding.valid == "unknown"


def test_nothing_is_said_of_a_run_without_a_settled_selection() -> None:
    assert judged(share, incident(1 / 17, selection=False).events()) is None
