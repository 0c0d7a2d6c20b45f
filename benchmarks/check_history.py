"""How long a recheck of a large record takes, and how much memory: all checkers over a stored history.

    python benchmarks/check_history.py [--streams 32] [EVENTS ...]

The histories are made up: paced writes, streams that fall silent in the hold and catch up, empty batches, canaries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.history import COMPLETED, END_OF_RUN, Event, Recorder, read
from harness.verdict import check_history

HOLD = (30.0, 60.0)
"""Per cent of the writes at which the fault is opened and released."""


def made_up(events: int, streams: int) -> Iterator[Event]:
    """About `events` lines: per write 2 lines, and one per stream for its event; 500 writes a second."""
    writes = events // (streams + 2)
    interval = 2_000_000
    opened, released = (int(writes * part / 100) for part in HOLD)
    names = [f"s{number}" for number in range(1, streams + 1)]
    hold = (released - opened) * interval / 1e9

    def line(t: int, kind: str, **fields: object) -> Event:
        return Event(t, 1.7e9 + t / 1e9, "benchmark", kind, fields)

    parameters = {"threshold": min(3.0, hold / 4), "shards": 2, "fault": "freeze"}
    yield line(0, "run.started", parameters=parameters, expected=["stalled"])
    for name in names:
        yield line(1, "stream.opened", stream=name, resumed=False)
    backlog: list[tuple[str, int]] = []
    for number in range(writes):
        t = 10 + number * interval
        key, seq = f"shard{number % 2}-k{number % 8}", number // 8
        if number == opened:
            yield line(t - 2, "fault.opened", id="f1", fault="freeze", target="shard0-2")
            yield line(t - 1, "fault.proven", id="f1", evidence={})
        if number == released:
            yield line(t - 3, "phase", name="release")
            yield line(t - 2, "fault.healed", id="f1")
            yield line(t - 1, "fault.recovered", id="f1", seconds=0.1)
        yield line(t, "write.invoked", key=key, seq=seq, shard=f"shard{number % 2}")
        yield line(t + 1000, "write.ok", key=key, seq=seq)
        backlog.append((key, seq))
        if not opened <= number < released:
            for key, seq in backlog:
                for name in names:
                    yield line(t + 2000, "stream.event", stream=name, key=key, seq=seq, op="update", token="82" * 40)
            backlog.clear()
        elif number % 500 == 0:
            for name in names:
                yield line(t + 2000, "stream.empty", stream=name, token="82" * 40, alive=True)
        if number == opened + (released - opened) // 2:
            for name in names:
                yield line(t + 2000, "alarm", stream=name, since=0, waits_for="shard0-2", known_by="canary")
    end = 10 + writes * interval
    yield line(end, "phase", name="check")
    for name in names:
        yield line(end + 1, "stream.closed", stream=name, reason=END_OF_RUN)
    yield line(end + 2, "run.ended", reason=COMPLETED)


def measure(events: int, streams: int, answer: multiprocessing.SimpleQueue[str]) -> None:
    """In a process of its own, whose peak of memory is this record's alone."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        recorder = Recorder(path)
        start = time.perf_counter()
        lines = 0
        for event in made_up(events, streams):
            recorder.write(event)
            lines += 1
        recorder.close()
        written = time.perf_counter() - start
        size = path.stat().st_size / 1e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.process_time()
        for _ in read(path):
            pass
        parsed = time.process_time() - start
        start, wall = time.process_time(), time.perf_counter()
        _, verdict = check_history(read(path))
        checked, wall = time.process_time() - start, time.perf_counter() - wall
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    answer.put(
        f"{lines:>9} events, {size:4.0f} MB: written in {written:.2f} s; read and checked in {wall:.2f} s, "
        f"{checked:.2f} s of CPU, of which parsing {parsed:.2f} s; {memory:.0f} MiB more memory; {verdict.headline}"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description="Time all checkers over large made-up records.")
    arguments.add_argument("events", nargs="*", type=int, default=[100_000, 1_000_000])
    arguments.add_argument("--streams", type=int, default=32)
    given = arguments.parse_args()
    context = multiprocessing.get_context("spawn")
    for events in given.events:
        answer = context.SimpleQueue()
        process = context.Process(target=measure, args=(events, given.streams, answer))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)
        print(answer.get())


if __name__ == "__main__":
    main()
