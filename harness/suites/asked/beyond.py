"""Questions that one server and these drivers answer in part, or not at all: routers, other drivers, other versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from harness.suites.question import Comparison, Evidence, Question, equal


def _sharded(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["sharded"]
    yield equal("sends to the router", run.sends, 8)
    yield equal("lsid and txnNumber that the shard's log has", (run.known, run.numbered), (8, 8))
    yield equal("copies at once on the shard", run.at_once, 4)
    yield equal("resends that the shard answered from the record", run.retried, 4)
    yield equal("documents", run.documents, 4)


QUESTIONS: Final[Sequence[Question]] = (
    Question(
        "sharded",
        "Do lsid and txnNumber reach the shard?",
        "They do, and there the resend waits as on a replica set.",
        "two shards behind the router that is named below; the insert is held on the shard",
        runs=["sharded"],
        judge=_sharded,
        left_open="where the router is the stand-in, this is what a shard does with what it is sent; what a mongos "
        "sends, and whether it sends a third time by itself, takes a mongos",
    ),
    Question(
        "mongos",
        "Does a mongos send a write to its shard again by itself?",
        "",
        "",
        left_open="it takes a mongos, and one that fails between it and the shard; none is to be had from PyPI",
    ),
    Question(
        "java",
        "Does the Java driver do as the others, and what does its timeoutMS do?",
        "",
        "",
        left_open="it takes a Java driver; nothing here drives one",
    ),
    Question(
        "spring-jitter",
        "Does Spring's ExponentialBackOff know jitter?",
        "",
        "",
        left_open="it takes Spring; --retry 'exponential(...,jitter=0.5)' shows what jitter does to the copies",
    ),
    Question(
        "versions",
        "Is it so on other versions?",
        "",
        "",
        left_open="this is of one version: set MONGODB_BINARIES to the directory of another, and run the suite again",
    ),
)
