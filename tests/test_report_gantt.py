"""Lanes of writes and of operations through routers: executions, sends, copies, who waited."""

from __future__ import annotations

from typing import Any

from harness.report.page.drawing import Drawing
from harness.report.page.marks import Bar, Sheet
from harness.report.page.writes import SHOWN
from history_builder import History

WALL = 1.7e9
"""Wall time of run time 0 in histories of the builder."""


def test_executions_sends_and_copies_of_a_write_lie_below_each_other_and_none_upon_another() -> None:
    (section,) = _sheet(_overlap("orders/0/0")).sections
    (lane,) = section.lanes
    assert lane.label == "orders/0/0"
    assert _spans(lane.bars, "unknown") == [(0, 2.0, 4.0), (0, 4.0, 6.0)]
    assert _spans(lane.bars, "send") == [(1, 2.0, 3.0), (1, 4.0, 5.0)]
    assert _spans(lane.bars, "resend") == [(1, 3.0, 4.0), (1, 5.0, 6.0)]
    assert _spans(lane.bars, "copy") == [(2, 2.0, 8.0), (4, 4.0, 8.0)]
    assert _spans(lane.bars, "no effect") == [(3, 3.0, 8.0), (5, 5.0, 8.0)]
    assert len(lane.tracks) == 6
    assert "lsid a1, txnNumber 1" in next(bar.text for bar in lane.bars if bar.style == "copy")
    assert [(one.style, one.at) for one in lane.points] == [("dead", 6.1), ("overlap", 4.5)]


def test_the_number_at_once_is_of_all_writes_and_of_the_write_with_the_most() -> None:
    history = _overlap("orders/0/0")
    _overlap("orders/1/0", history, executions=1)
    history.add(5.0, "copies", member="rs0-0", interval=0.2, ops=3, groups=3, copies=2, writes={"orders/0/0": 2})
    (panel,) = _sheet(history).panels
    curves = {curve.style: list(zip(curve.at, curve.value, strict=True)) for curve in panel.curves}
    assert curves["copies"] == [(2.0, 0), (2.0, 2), (4.0, 3), (8.0, 0)]
    assert curves["of one"] == [(2.0, 0), (2.0, 1), (4.0, 2), (8.0, 0)]
    assert curves["sampled"] == [(5.0, 2)]
    assert max(height for _, height in curves["sends"]) == 2


def test_of_many_writes_those_with_the_most_have_a_lane_and_the_title_says_how_many_there_are() -> None:
    history = _overlap("orders/0/7")
    for number in range(SHOWN + 9):
        _overlap(f"orders/1/{number}", history, executions=1)
    (section,) = _sheet(history).sections
    assert len(section.lanes) == SHOWN
    assert section.lanes[0].label == "orders/0/7"
    assert section.title == f"the {SHOWN} of {SHOWN + 10} writes with most sends"


def test_a_send_without_a_reply_lasts_to_the_end_and_says_that_there_was_none() -> None:
    history = History()
    history.add(2.0, "execution.begun", write="w", execution=1, consumer="c1")
    _send(history, 2.0, "w", 1, request=1, took=None)
    history.add(9.0, "cluster", what="later")
    lane = _sheet(history).sections[-1].lanes[0]
    send = next(bar for bar in lane.bars if bar.style == "send")
    assert (send.start, send.end) == (2.0, 9.0)
    assert "no reply" in send.text
    assert "never ended" in lane.bars[0].text


def test_through_each_router_an_operation_waited_or_did_not() -> None:
    history = History()
    for router, setting in (("shard3-0", "fine"), ("shard4-0", "coarse")):
        _router(history, router, setting)
        for name, belongs in (("find B", "stale shard"), ("find A", "other shard")):
            shape: dict[str, Any] = {"command": "find", "region": 1, "namespace": "db.c"}
            history.add(10.0, "routed.op", router=router, op=name, belongs=belongs, **shape)
            waits = name == "find B" or setting == "coarse"
            ended: dict[str, Any] = {"outcome": "ok", "code": None, "code_name": None, "error": None}
            took = 1.6 if waits else 0.1
            history.add(10.0 + took, "routed.ended", router=router, op=name, seconds=took, **ended)
        history.add(10.1, "routing", router=router, what="held", pending=[])
        history.add(11.5, "routing", router=router, what="released", pending=[])
    sheet = _sheet(history)
    fine, coarse = sheet.sections
    assert fine.title == "operations through shard3-0, fine"
    assert [[bar.style for bar in lane.bars] for lane in fine.lanes] == [["held"], ["waited"], ["did not wait"]]
    assert [[bar.style for bar in lane.bars] for lane in coarse.lanes] == [["held"], ["waited"], ["waited"]]
    assert [lane.label for lane in coarse.lanes] == ["refresh", "find B (stale shard)", "find A (other shard)"]
    assert "pending at the release: find B" in fine.lanes[0].bars[0].text
    assert (round(sheet.start, 6), sheet.end > 11.9) == (9.7, True)


def _overlap(write: str, history: History | None = None, executions: int = 2) -> History:
    """Executions of 2 s each, with a send and a resend of 1 s; all of it ran until the release at 8 s."""
    history = history or History()
    for number in range(1, executions + 1):
        t = 2.0 * number
        history.add(t, "execution.begun", write=write, execution=number, consumer="c1")
        for resend in (0, 1):
            _send(history, t + resend, write, number, request=hash((write, number, resend)), took=1.0)
            ran: dict[str, Any] = {"member": "rs0-0", "lsid": f"a{number}", "txn": 1, "command": "insert", "code": None}
            counts: dict[str, Any] = {
                "modified": 0,
                "upserted": 0,
                "deleted": 0,
                "inserted": 1 - resend,
                "inside": not resend,
            }
            times: dict[str, Any] = {"began": WALL + t + resend, "ended": WALL + 8.0, "executed": True}
            history.add(9.0, "op.logged", write=write, execution=number, **ran, **counts, **times)
        ended: dict[str, Any] = {"outcome": "unknown", "effect": None, "code": None, "labels": []}
        history.add(t + 2.0, "execution.ended", write=write, execution=number, **ended)
    history.add(executions * 2 + 2.1, "record", write=write, what="dead", consumer="c1", detail=None)
    if executions > 1:
        alarm: dict[str, Any] = {"namespace": "db.c", "copies": 2, "limit": 1, "known_by": "$currentOp of rs0-0"}
        history.add(4.5, "overlap.alarm", write=write, **alarm)
    return history


def _send(history: History, t: float, write: str, execution: int, *, request: int, took: float | None) -> None:
    sent: dict[str, Any] = {
        "lsid": f"a{execution}",
        "txn": 1,
        "command": "insert",
        "host": "127.0.0.1:1",
        "operation": 1,
    }
    history.add(t, "send", write=write, execution=execution, request=request, **sent)
    if took is not None:
        history.add(t + took, "send.ended", request=request, ok=False, code=None, labels=[])


def _router(history: History, router: str, setting: str) -> None:
    expected: dict[str, Any] = {"outcome": "isolated", "waiting": [], "errors": {}, "by_itself": False, "counters": {}}
    shape: dict[str, Any] = {
        "case": "isolation",
        "in_process": True,
        "control": setting == "coarse",
        "untold": True,
        "within": 0.5,
    }
    names = ["find B", "find A"]
    history.add(1.0, "routing.case", router=router, setting=setting, operations=names, expected=expected, **shape)


def _sheet(history: History) -> Sheet:
    drawing = Drawing()
    for event in history.events():
        drawing.see(event)
    sheet = drawing.sheet()
    return Sheet(sheet.start, sheet.end, [one for one in sheet.sections if one.title != "run"], sheet.panels)


def _spans(bars: Any, style: str) -> list[tuple[int, float, float]]:
    found: list[Bar] = [bar for bar in bars if bar.style == style]
    return [(bar.track, round(bar.start, 3), round(bar.end, 3)) for bar in found]
