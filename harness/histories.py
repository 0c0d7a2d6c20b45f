"""The history of a program of one's own: what it broke, what was watched, what it wrote and what its streams delivered.

Written like a run's, into a directory like a run's, so that the same checkers judge it and `mongofault check` reads it.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from clusters.cluster import Cluster
from clusters.uri import redacted
from harness.checkers import Finding, run_checkers
from harness.drivers.clients import driver_versions
from harness.history import COMPLETED, END_OF_RUN, INTERRUPTED, RUN_FAILED, Event, read
from harness.measures import NS
from harness.record import HISTORY, Record
from harness.report import page
from harness.result import Result

SOURCE: Final = "program"


class History:
    """Of one program, or of one test. Thread-safe as far as single lines go: they are written in one piece."""

    def __init__(self, record: Record, name: str) -> None:
        self.name = name
        self._record = record
        self.recorder = record.recorder()
        self._healed: dict[str, int] = {}
        self._server_known = False
        self._ended = False

    @property
    def directory(self) -> Path:
        """Where history, result and report lie."""
        return self._record.path

    @property
    def path(self) -> Path:
        """The history itself, JSON lines."""
        return self._record.path / HISTORY

    @property
    def report(self) -> Path:
        """The page for people, once the history is closed."""
        return self._record.path / page.NAME

    # What is told to it

    def note(self, what: str, **fields: Any) -> None:
        """A line of one's own, shown with all else at its time; the fields must be JSON-able."""
        self.recorder.record("cluster", SOURCE, what=what, **fields)

    def invoked(self, key: str | int, seq: int, *, shard: str = "?") -> None:
        """A write is about to be sent; `seq` runs upwards for each key. Without this its event owes nothing."""
        self.recorder.record("write.invoked", SOURCE, key=key, seq=seq, shard=shard)

    def acknowledged(self, key: str | int, seq: int) -> None:
        """That write was acknowledged, by the majority: from now on its event is owed to every stream."""
        self.recorder.record("write.ok", SOURCE, key=key, seq=seq)

    def failed(self, key: str | int, seq: int, error: BaseException, *, refused: bool = False) -> None:
        """It was not acknowledged; `refused` where the server said no, so that it did not happen."""
        fields: dict[str, Any] = {"error": f"{type(error).__name__}: {redacted(str(error))}"}
        if refused:
            fields["code"] = getattr(error, "code", None)
        self.recorder.record("write.failed" if refused else "write.unknown", SOURCE, key=key, seq=seq, **fields)

    def opened(self, stream: str, *, resumed: bool = False) -> None:
        """A change stream of that name is open; `resumed` from a token of its own."""
        self.recorder.record(
            "stream.opened", SOURCE, stream=stream, read_preference="", tags={}, full_document="", resumed=resumed
        )

    def delivered(self, stream: str, key: str | int, seq: int | None, change: Mapping[str, Any] | None = None) -> None:
        """It delivered the event of that write; `change` the event itself, for its image and its time."""
        told = change or {}
        time = told.get("clusterTime")
        self.recorder.record(
            "stream.event", SOURCE,
            stream=stream, key=key, seq=seq, op=told.get("operationType"), image=told.get("fullDocument") is not None,
            token=None, cluster_time=[time.time, time.inc] if time is not None else None,
        )  # fmt: skip

    def closed(self, stream: str) -> None:
        """It was closed by the program, which had read all that it wanted."""
        self.recorder.record("stream.closed", SOURCE, stream=stream, reason=END_OF_RUN)

    # What is told to it by others here

    def started(self, cluster: Cluster) -> None:
        """On which cluster; the first one is what the history is about."""
        shards = cluster.topology.shards
        if self._server_known:
            self.note("another cluster", cluster=cluster.name)
            return
        self._server_known = True
        self.recorder.record(
            "run.started", SOURCE,
            scenario=self.name, parameters={"shards": len(shards), "members": len(shards[0].members)}, seed=0,
            driver=driver_versions("pymongo"), server=dataclasses.asdict(cluster.server), expected=[],
        )  # fmt: skip

    def healed(self, identity: str) -> None:
        self.recorder.record("fault.healed", SOURCE, id=identity)
        self._healed[identity] = self.recorder.now()

    def recovered(self) -> None:
        for identity, since in self._healed.items():
            seconds = round((self.recorder.now() - since) / NS, 3)
            self.recorder.record("fault.recovered", SOURCE, id=identity, seconds=seconds)
        self._healed = {}

    # What comes of it

    def events(self) -> list[Event]:
        """All that is in it by now."""
        if not self._ended:
            self.recorder.flush()
        return list(read(self.path))

    def check(self) -> dict[str, Finding]:
        """Every checker's finding by name, of what is in it by now: `delivery`, `recovery`, `stall` and the others.

        What has not come by now counts as missing: ask when the streams have had their time.
        """
        events = self.events()
        if not self._ended:
            now = self.recorder.now()
            events.append(Event(now, 0.0, SOURCE, "run.ended", {"reason": COMPLETED, "detail": ""}))
        return {finding.name: finding for finding in run_checkers(events)}

    def require(self, *names: str) -> None:
        """Raises AssertionError, naming guarantee and problems, unless each of these findings holds.

        One that could not be established does not hold.
        """
        found = self.check()
        for name in names:
            if name not in found:
                raise AssertionError(f"{name} says nothing of this history; findings: {', '.join(found)}")
            finding = found[name]
            if finding.valid is not True:
                word = "does not hold" if finding.valid is False else "could not be established"
                told = finding.evidence.get("problems") or finding.evidence.get("doubts") or [""]
                raise AssertionError(f"{name} {word}: {finding.statement} {told[0]}".rstrip())

    def end(self, reason: str = COMPLETED, detail: str = "") -> Result:
        """Close it, and write result and report beside it. Once."""
        self._ended = True
        self.recorder.record("run.ended", SOURCE, reason=reason, detail=redacted(detail))
        self.recorder.close()
        drawn = page.draw(self._record)
        self._record.write_result(drawn.result)
        page.write([drawn], self.report)
        return drawn.result

    def discard(self) -> None:
        """Close it, and remove it with its directory."""
        self._ended = True
        self.recorder.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def history(directory: str | Path = "runs", name: str = "program") -> Iterator[History]:
    """The history of a block, in a directory of its own within `directory`; closed and judged at the end.

    Give it to `local_cluster`, `replica_set` or `hold`. Raises Refused where it cannot be written.
    """
    one = History(Record.create(Path(directory), name), name)
    try:
        yield one
    except BaseException as error:
        failed = isinstance(error, Exception)
        one.end(RUN_FAILED if failed else INTERRUPTED, f"{type(error).__name__}: {error}")
        raise
    one.end()
