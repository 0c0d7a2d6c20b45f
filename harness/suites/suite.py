"""The suite: its runs and looks one after the other, each on a cluster of its own, then its answers.

What one run fails with ends that run, not the suite; a signal ends it, healed, and nothing is answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters import local
from clusters.errors import Refused
from clusters.topology import sharded_cluster, single_replica_set
from harness.interrupts import interruptible
from harness.record import Record
from harness.run import FAILURES
from harness.scenarios.overlap_parameters import OUTCOMES, OverlapParameters
from harness.scenarios.parameters import build
from harness.scenarios.retry_overlap import RetryOverlap
from harness.suites.asked import QUESTIONS
from harness.suites.findings import Findings
from harness.suites.looks import LOOKS
from harness.suites.measured import Measured, measured
from harness.suites.question import FAILED, Evidence, Question, answer
from harness.suites.running import carried_out
from harness.suites.runs import RUNS

RECORD_NAME: Final = "questions"
ANSWERS: Final = "answers.json"

Told = Callable[[str], None]


async def ask(runs: Path, told: Told, questions: Sequence[Question] = QUESTIONS, *, seed: int) -> Findings:
    """Everything that `questions` take, once each. `told` a line for each. Raises Refused, Interrupted."""
    begun = time.monotonic()
    server = local.server_info(single_replica_set(1))
    router = local.server_info(sharded_cluster(2, 1)).router
    wanted = [name for name in RUNS if any(name in one.runs for one in questions)]
    scenarios = {name: _scenario(name, seed) for name in wanted}
    record = Record.create(runs, RECORD_NAME)
    looks = [name for name in LOOKS if any(name in one.looks for one in questions)]
    number = len(wanted) + len(looks)
    found: dict[str, Measured] = {}
    seen: dict[str, Mapping[str, Any]] = {}
    for count, name in enumerate(wanted, 1):
        found[name] = await _run(record.path / "runs", scenarios[name])
        run = found[name]
        told(f"{count}/{number} {name}: " + (run.unknown or f"{run.sends} sends, {run.copies} copies"))
    for count, name in enumerate(looks, 1 + len(wanted)):
        seen[name] = await _look(name, record.suffix, seed)
        told(f"{count}/{number} {name}: {seen[name].get(FAILED, 'looked at')}")
    evidence = Evidence(found, seen)
    answers = [answer(one, evidence) for one in questions]
    findings = Findings(server, router, seed, answers, evidence, time.monotonic() - begun, str(record.path))
    (record.path / ANSWERS).write_text(json.dumps(findings.document, indent=2, default=str) + "\n")
    return findings


def _scenario(name: str, seed: int) -> RetryOverlap:
    # What is expected of a run is the questions' affair: none of its outcomes is a surprise to itself.
    return RetryOverlap(build(OverlapParameters, {**RUNS[name], "expect": list(OUTCOMES), "seed": seed}))


async def _run(runs: Path, scenario: RetryOverlap) -> Measured:
    try:
        result, events = await carried_out(scenario, runs)
    except Refused as error:
        # A fail point that this version does not know, a driver that is not installed.
        return Measured(unknown=str(error))
    return measured(result.document, events)


async def _look(name: str, suffix: str, seed: int) -> Mapping[str, Any]:
    async def through() -> Mapping[str, Any]:
        cluster = await local.bring_up(single_replica_set(1), f"look-{name}-{suffix}", seed=seed, proxied=True)
        try:
            return await LOOKS[name](cluster)
        finally:
            await cluster.down()

    try:
        return await interruptible(through())
    except (*FAILURES, Refused) as error:
        return {FAILED: f"{type(error).__name__}: {error}"}
