"""Questions are answered from what runs and looks came to: from stored ones of a real 6.0.5, and from worse ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.cluster import ServerInfo
from harness import exits
from harness.history import Event
from harness.report import questions as report
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.parameters import build
from harness.suites.asked import QUESTIONS
from harness.suites.findings import Findings
from harness.suites.looks import LOOKS
from harness.suites.measured import Measured, measured
from harness.suites.question import FAILED, LACKING, Answer, Evidence, Question, answer, between, equal
from harness.suites.runs import RUNS

STORED: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("stored_questions.json").read_text())
BY_NAME: Final = {one.name: one for one in QUESTIONS}
ASKED: Final = [one for one in QUESTIONS if one.judge is not None]
OPEN: Final = ("mongos", "java", "spring-jitter", "versions")


def as_measured(stored: dict[str, Any]) -> Measured:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return Measured(**fields)


def evidence(**changed: Any) -> Evidence:
    """What is stored; `changed` by the name of a run, with `_` for `-`, the fields that are otherwise."""
    runs = {name: as_measured(one) for name, one in STORED["runs"].items()}
    for name, fields in changed.items():
        run = name.replace("_", "-")
        runs[run] = dataclasses.replace(runs[run], **fields)
    return Evidence(runs, json.loads(json.dumps(STORED["looks"])))


@pytest.mark.parametrize("question", ASKED, ids=lambda one: one.name)
def test_what_a_real_server_gave_is_judged_again_as_it_was(question: Question) -> None:
    found = answer(question, evidence())
    assert found.verdict == "confirmed", [one for one in found.comparisons if not one.holds]


@pytest.mark.parametrize(
    ("question", "changed"),
    [
        ("procedure", {"procedure": {"sends_each": (1, 1, 1, 1)}}),
        ("procedure", {"procedure": {"documents": 8}}),
        ("session-wait", {"engine": {"waiting": {"fail point": 8}}}),
        ("session-wait", {"engine_update": {"copies": 8}}),
        ("maximum", {"maximum_10x3": {"at_once": 29}}),
        ("maximum", {"engine_delayed": {"sends": 7}}),
        ("retry-writes-off", {"no_retry": {"at_once": 2}}),
        ("retry-writes-off", {"no_retry_10x3": {"numbered": 30}}),
        ("one-session", {"one_session": {"at_once": 2}}),
        ("resend-pymongo", {"procedure": {"gaps": ()}}),
        ("resend-motor", {"procedure_motor": {"numbered": 4}}),
        ("csot", {"hang_csot": {"sends": 2}}),
        ("csot", {"closed_csot": {"sends": 2}}),
        ("csot", {"labelled_csot": {"sends": 2}}),
        ("errors", {"error_50": {"sends": 2}}),
        ("errors", {"error_91": {"gaps": (0.1,)}}),
        ("overload", {"overload": {"sends": 2}}),
        ("many", {"update_many": {"sends_each": (2, 2, 2, 2)}}),
        ("unacknowledged", {"w0_closed": {"documents": 1}}),
        ("unacknowledged", {"w0_closed": {"errors": {"AutoReconnect": 1}}}),
        ("max-time", {"max_time_interruptible": {"sends": 6}}),
        ("max-time", {"lock_max_time": {"errors": {"NetworkTimeout": 3}}}),
        ("max-time", {"tickets_max_time": {"sends": 6}}),
        ("max-time-uninterruptible", {"max_time_uninterruptible": {"sampled": 1}}),
        ("max-time-fail-command", {"max_time_held": {"errors": {"50": 3}}}),
        ("max-time-frozen", {"max_time_frozen": {"effective": 0}}),
        ("frozen", {"frozen": {"documents": 1}}),
        ("frozen", {"frozen_inc": {"qty": 5}}),
        ("failover", {"failover": {"documents": 4}}),
        ("duplicate-key", {"frozen_business_id": {"copies": 4}}),
        ("cold-pool", {"frozen_cold": {"sends": 8}}),
        ("sharded", {"sharded": {"known": 0}}),
    ],
)
def test_a_server_that_does_otherwise_contradicts(question: str, changed: dict[str, Any]) -> None:
    assert answer(BY_NAME[question], evidence(**changed)).verdict == "contradicted"


@pytest.mark.parametrize(
    ("question", "path", "value"),
    [
        ("fail-command-before-checkout", ("checkout", "while_held"), 1),
        ("fail-command-before-checkout", ("checkout", "afterwards"), 0),
        ("fail-command-before-checkout", ("inside", "failCommand", 0, "in_session"), True),
        ("field-location", ("inside", "engine", 0, "lsid"), False),
        ("field-location", ("inside", "failCommand", 0, "begun"), True),
        ("hang-up", ("hang-up", "find", "fared"), "goes on"),
        ("hang-up", ("hang-up", "update", "fared"), "ends"),
        ("hang-up", ("hang-up", "out", "effect"), False),
        ("resend-node", ("mongosh", "on", "groups"), [1, 1]),
        ("resend-node", ("mongosh", "off", "sends"), 4),
    ],
)
def test_a_look_that_sees_otherwise_contradicts(question: str, path: tuple[Any, ...], value: Any) -> None:
    seen = evidence()
    at: Any = seen.looks
    for step in path[:-1]:
        at = at[step]
    assert at[path[-1]] != value
    at[path[-1]] = value
    assert answer(BY_NAME[question], seen).verdict == "contradicted"


def test_every_run_and_every_look_is_asked_for_and_is_there() -> None:
    assert {name for one in QUESTIONS for name in one.runs} == set(RUNS)
    assert {name for one in QUESTIONS for name in one.looks} == set(LOOKS)
    assert len(BY_NAME) == len(QUESTIONS)


@pytest.mark.parametrize("name", RUNS)
def test_the_scenario_takes_the_options_of_every_run(name: str) -> None:
    build(OverlapParameters, dict(RUNS[name]))


def test_what_only_another_driver_or_a_mongos_can_answer_is_open_and_says_why() -> None:
    answers = [answer(one, evidence()) for one in QUESTIONS if one.judge is None]
    assert [one.question.name for one in answers] == list(OPEN)
    assert all(one.verdict == "open" and one.reason for one in answers)


@pytest.mark.parametrize("question", ASKED, ids=lambda one: one.name)
def test_without_what_it_takes_a_question_is_not_answered(question: Question) -> None:
    assert answer(question, Evidence({}, {})).verdict == "unknown"


@given(st.text(min_size=1, max_size=20))
def test_a_run_that_came_to_no_end_leaves_its_questions_unknown_with_its_reason(reason: str) -> None:
    found = answer(BY_NAME["frozen"], evidence(frozen_inc={"unknown": reason}))
    assert (found.verdict, found.reason) == ("unknown", f"frozen-inc: {reason}")


def test_a_look_that_failed_is_unknown_and_one_that_cannot_be_had_is_open() -> None:
    for field, verdict in ((FAILED, "unknown"), (LACKING, "open")):
        found = answer(BY_NAME["resend-node"], Evidence({}, {"mongosh": {field: "there is none"}}))
        assert found.verdict == verdict
        assert found.reason is not None and "there is none" in found.reason


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (("confirmed", "open"), exits.AS_EXPECTED),
        (("confirmed", "unknown"), exits.UNKNOWN),
        (("unknown", "contradicted"), exits.NOT_AS_EXPECTED),
    ],
)
def test_a_contradiction_goes_before_an_unknown_answer_and_an_open_one_is_neither(
    verdicts: tuple[Any, ...], code: int
) -> None:
    assert findings([Answer(QUESTIONS[0], one) for one in verdicts]).exit_code == code


def findings(answers: list[Answer]) -> Findings:
    server = ServerInfo(version="6.0.5", git_version="c9a99c1203", parameters={}, router="none")
    return Findings(server, "stand-in", 7, answers, evidence(), 1.0, "runs/one")


def test_the_page_has_of_each_question_its_method_its_figures_and_its_answer() -> None:
    held, differs = equal("sends", 8, 8), between("copies", 5, 1, 4)
    asked, left = BY_NAME["sharded"], BY_NAME["java"]
    text = report.page(
        findings([Answer(asked, "contradicted", (held, differs)), Answer(left, "open", reason=left.left_open)]), RUNS
    )
    assert "| sends | 8 | 8 |  |" in text
    assert "| copies | 5 | 1 to 4 | **differs** |" in text
    assert f"| {asked.title} | contradicted (1 of 2 figures) |" in text
    assert f"**open**: {left.left_open}" in text
    assert asked.method in text
    assert "router of the sharded runs: stand-in" in text
    assert "seed 7" in text
    assert "`--fault fail-point --driver-option socketTimeoutMS=300 --shards 2`" in text


def event(kind: str, at: float, **fields: Any) -> Event:
    return Event(round(at * 1e9), 0.0, "test", kind, fields)


def test_gaps_numbers_and_waits_of_a_run_are_read_from_its_history() -> None:
    sent = {"write": "t/0/0", "execution": 1, "lsid": "aa", "txn": 1}
    document = {
        "verdict": "as expected",
        "driver": {"name": "motor", "version": "3.7.1"},
        "record": "runs/one",
        "findings": [
            {
                "name": "overlap",
                "evidence": {
                    "totals": {"executions": 1, "sends": 2, "copies": 1, "effective": 1, "groups": 1},
                    "most": {"at_once_of_all_writes": 1, "sampled": 1},
                    "rules": [],
                },
            }
        ],
    }
    found = measured(
        document,
        [
            event("send", 1.0, **sent),
            event("send", 1.5, **sent),
            event("send", 2.0, **{**sent, "execution": 2, "lsid": "bb"}),
            event("tap", 3.0, write="t/0/0", execution=1, total=2),
            event("tap", 3.0, write="t/0/0", execution=2, total=1),
            event("copies", 1.6, waiting={"session": 1}),
            event("copies", 1.7, waiting={"session": 3, "nothing": 1}),
            event("copies", 1.8, waiting={}),
            event("op.logged", 3.0, lsid="aa", txn=1),
            event("execution.ended", 2.0, seconds=1.0, code=50, error="ExecutionTimeout: too late"),
            event("execution.ended", 2.0, seconds=2.0, code=None, error="NetworkTimeout: timed out"),
            event("execution.ended", 2.0, seconds=3.0, code=None, error=None),
        ],
    )
    assert found.gaps == (0.5,)
    assert found.sends_each == (1, 2)
    assert (found.numbered, found.known) == (3, 2)
    assert found.waiting == {"session": 3, "nothing": 1}
    assert found.errors == {"50": 1, "NetworkTimeout": 1}
    assert found.seconds == (1.0, 2.0, 3.0)
    assert found.driver == "motor 3.7.1"


def test_a_run_whose_verdict_is_unknown_says_why() -> None:
    document = {
        "verdict": "unknown", "reasons": ["not proven"], "driver": {}, "record": "runs/one", "findings": [],
    }  # fmt: skip
    assert measured(document, []).unknown == "not proven"
