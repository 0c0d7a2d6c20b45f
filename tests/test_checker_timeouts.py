"""The timeouts checker: does a driver's read timeout notice a silent stream?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import timeouts
from history_builder import History, a_run, judged

STALL = {"s1": [(6.3, 18.5)], "s2": [(7.3, 18.5)]}


def _run(options: Any = ("socketTimeoutMS=3000",), silent: Any = None) -> History:
    history = a_run(silent=STALL if silent is None else silent, parameters={"driver_option": options})
    for number in range(24):
        for stream in ("s1", "s2"):
            history.add(1.05 + number, "stream.empty", stream=stream, alive=True)
    return history


def test_a_timeout_that_never_fires_is_reported_with_what_the_router_answered_meanwhile() -> None:
    finding = judged(timeouts, _run().events())
    assert finding is not None
    assert finding.valid is False
    assert finding.evidence["problems"] == [
        "socketTimeoutMS of 3 s: the timeout never fired: 2 streams silent for 11.8 s, 0 errors; "
        "the router answered 23 empty batches"
    ]


@pytest.mark.parametrize(
    "options", [{}, [], {"maxPoolSize": 5}, {"connectTimeoutMS": 3000}, ["socketTimeoutMS=0"], {"timeoutMS": "soon"}]
)
def test_without_a_read_timeout_there_is_no_finding(options: Any) -> None:
    assert judged(timeouts, _run(options).events()) is None


@pytest.mark.parametrize("options", [{"timeoutMS": 3000}, {"sockettimeoutms": "3000"}, ["timeoutMS=3000", "x=y"]])
def test_options_are_understood_as_a_mapping_or_as_pairs_in_any_case(options: Any) -> None:
    finding = judged(timeouts, _run(options).events())
    assert finding is not None
    assert finding.evidence["seconds"] == 3.0


def test_if_no_stream_was_silent_for_longer_than_the_timeout_nothing_is_known() -> None:
    for run in (_run(silent={}), _run(["socketTimeoutMS=15000"])):
        finding = judged(timeouts, run.events())
        assert finding is not None
        assert finding.valid == "unknown"


def test_a_timeout_that_fires_on_every_silent_stream_is_valid() -> None:
    history = _run()
    history.add(9.4, "stream.error", stream="s1", error="NetworkTimeout: timed out", code=None, where="next")
    history.add(10.4, "stream.resumed", stream="s2", by="driver", error="localhost: timed out", code=None)
    finding = judged(timeouts, history.events())
    assert finding is not None
    assert finding.valid is True
    assert finding.evidence["timeouts"] == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"error": "OperationFailure: timed out", "code": 202},
        {"error": "ServerSelectionTimeoutError: timed out", "code": None},
        {"error": "AutoReconnect: connection closed", "code": None},
    ],
)
def test_other_errors_are_no_read_timeouts(fields: dict[str, Any]) -> None:
    history = _run()
    history.add(9.4, "stream.error", stream="s1", where="next", **fields)
    finding = judged(timeouts, history.events())
    assert finding is not None
    assert finding.valid is False
    assert "1 errors" in finding.evidence["problems"][0]


def test_a_timeout_that_fires_on_some_streams_only_is_said_so() -> None:
    history = _run()
    history.add(9.4, "stream.error", stream="s1", error="NetworkTimeout: timed out", code=None, where="next")
    finding = judged(timeouts, history.events())
    assert finding is not None
    assert "the timeout did not fire on 1 of 2 silent streams" in finding.evidence["problems"][0]
