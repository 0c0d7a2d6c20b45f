"""The history: what is recorded is what is read, whatever became of the writer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history import Event, HistoryError, Recorder, read

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def _path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_what_is_recorded_is_read_back_equal_and_in_order(tmp_path: Path) -> None:
    recorder = Recorder(_path(tmp_path))
    recorded = [recorder.record("stream.event", "test", stream="s1", key="k1", seq=n, token=None) for n in range(100)]
    recorder.close()
    assert list(read(_path(tmp_path))) == recorded
    times = [event.t for event in recorded]
    assert times == sorted(times)


@settings(max_examples=50, deadline=None)
@given(fields=st.dictionaries(st.text().filter(lambda name: name not in ("t", "wall", "source", "kind")), Json))
def test_any_json_fields_survive(fields: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    recorder = Recorder(path)
    event = Event(1, 2.0, "test", "cluster", fields)
    recorder.write(event)
    recorder.close()
    assert list(read(path)) == [event]


@pytest.mark.parametrize("name", ["t", "wall"])
def test_a_field_cannot_take_the_place_of_the_lines_own(tmp_path: Path, name: str) -> None:
    recorder = Recorder(_path(tmp_path))
    with pytest.raises(ValueError, match=f"field '{name}' of cluster"):
        recorder.record("cluster", "test", **{name: 1})
    recorder.close()
    assert list(read(_path(tmp_path))) == []


def test_fields_are_had_by_name_and_times_in_seconds() -> None:
    event = Event(1_500_000_000, 1.7e9, "test", "write.ok", {"key": "k1"})
    assert event["key"] == "k1"
    assert event.get("seq") is None
    assert event.seconds == 1.5
    with pytest.raises(KeyError):
        event["seq"]


def test_listeners_see_each_event_as_it_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(_path(tmp_path))
    seen: list[Event] = []
    recorder.subscribe(seen.append)
    event = recorder.record("phase", "test", name="hold")
    assert seen == [event]
    recorder.close()


@pytest.mark.parametrize("kind", ["fault.opened", "run.started"])
def test_what_must_not_be_missed_is_in_the_file_at_once_with_all_before_it(tmp_path: Path, kind: str) -> None:
    recorder = Recorder(_path(tmp_path))
    recorder.record("write.invoked", "test", key="k1", seq=1, shard="shard0")
    assert list(read(_path(tmp_path))) == []
    recorder.record(kind, "test", id="f1")
    assert [event.kind for event in read(_path(tmp_path))] == ["write.invoked", kind]
    recorder.close()


def test_a_flush_makes_the_rest_readable_before_the_end(tmp_path: Path) -> None:
    recorder = Recorder(_path(tmp_path))
    recorder.record("phase", "test", name="check")
    recorder.flush()
    assert [event["name"] for event in read(_path(tmp_path))] == ["check"]
    recorder.close()


def test_closing_twice_is_harmless_and_closing_keeps_everything(tmp_path: Path) -> None:
    recorder = Recorder(_path(tmp_path))
    recorder.record("phase", "test", name="load")
    recorder.close()
    recorder.close()
    assert len(list(read(_path(tmp_path)))) == 1


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(_path(tmp_path))
    for n in range(3):
        recorder.record("phase", "test", name=f"p{n}")
    recorder.close()
    whole = _path(tmp_path).read_bytes()
    for cut in (1, 2, 20):
        _path(tmp_path).write_bytes(whole[:-cut])
        assert [event["name"] for event in read(_path(tmp_path))] == ["p0", "p1"]


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "3", "nonsense", '{"t":1,"wall":2.0,"source":"x","kind":"y"} {}', '{"t":1,"wall":2,"source":"x"}', ""],
)
def test_a_line_that_is_no_event_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    good = json.dumps({"t": 1, "wall": 2.0, "source": "test", "kind": "phase", "name": "load"})
    _path(tmp_path).write_text(f"{good}\n{line}\n{good}\n")
    events = read(_path(tmp_path))
    assert next(events).kind == "phase"
    with pytest.raises(HistoryError, match=r"history\.jsonl:2: expected an event as JSON"):
        next(events)


def test_a_file_that_is_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    _path(tmp_path).write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(HistoryError, match="expected an event as JSON"):
        list(read(_path(tmp_path)))


WRITER = """
import sys, pathlib
from harness.history import Recorder
recorder = Recorder(pathlib.Path(sys.argv[1]))
for n in range(5000):
    recorder.record("write.invoked", "test", key="k1", seq=n, shard="shard0")
recorder.record("fault.opened", "test", id="f1", fault="freeze", target="shard0-2")
print("opened", flush=True)
n = 0
while True:
    recorder.record("write.invoked", "test", key="k2", seq=n, shard="shard0")
    n += 1
"""


def test_a_writer_that_is_killed_leaves_everything_up_to_its_last_fault_record(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(_path(tmp_path))], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"opened\n"
        time.sleep(0.05)
        os.kill(writer.pid, 9)
    events = list(read(_path(tmp_path)))
    assert [event["seq"] for event in events[:5000]] == list(range(5000))
    assert events[5000].kind == "fault.opened"
    assert [event["seq"] for event in events[5001:]] == list(range(len(events) - 5001))
