"""What was sent, exactly: as the driver says it wrote it, and as the proxy's tap read it.

The driver tells each request as it writes it, with its session and number, by which requests of others can be joined
to a logical write. The tap is read at the end, after the release. It knows neither copies nor counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from clusters.wire.proxy import tap
from clusters.wire.proxy.client import ProxyControl
from harness.drivers.errors import failure_fields
from harness.history import Recorder

LISTENER: Final = "listener"
TAP: Final = "tap"

WRITES: Final[Mapping[str, str]] = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "findAndModify": "findAndModify",
    "findandmodify": "findAndModify",
    "bulkWrite": "bulkWrite",
}
"""Commands that write, by each name that servers take, as `serverStatus` counts them."""


class SendListener(CommandListener):
    """For any number of clients: each request of this run's logical writes, and what came of it.

    Of original and resend `operation` is the same, and lsid and txnNumber are; `request` never is. All batches of one
    bulk have one `operation`, each a number of its own (pymongo 4.20).
    """

    def __init__(self, recorder: Recorder, run: str) -> None:
        self._recorder = recorder
        self._run = run
        self._sent: set[int] = set()

    def started(self, event: CommandStartedEvent) -> None:
        comment = event.command.get("comment")
        if not isinstance(comment, Mapping) or comment.get("run") != self._run or "execution" not in comment:
            return
        self._sent.add(event.request_id)
        address, port = event.connection_id
        self._recorder.record(
            "send", LISTENER, write=comment["write"], execution=comment["execution"], request=event.request_id,
            operation=event.operation_id, lsid=session_hex(event.command.get("lsid")),
            txn=_number(event.command.get("txnNumber")), command=event.command_name, host=f"{address}:{port}",
        )  # fmt: skip

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._ended(event.request_id, event.duration_micros, {"error": None, "code": None, "labels": []})

    def failed(self, event: CommandFailedEvent) -> None:
        said = failure_fields(event.failure)
        self._ended(event.request_id, event.duration_micros, {name: said[name] for name in ("error", "code", "labels")})

    def _ended(self, request: int, micros: int, came_of_it: Mapping[str, Any]) -> None:
        if request not in self._sent:
            return
        self._sent.discard(request)
        self._recorder.record(
            "send.ended", LISTENER,
            request=request, ok=came_of_it["error"] is None, seconds=round(micros / 1e6, 6), **came_of_it,
        )  # fmt: skip


def session_hex(lsid: Any) -> str | None:
    """The id of a session, as the history has it; None where there is none."""
    found = lsid.get("id") if isinstance(lsid, Mapping) else None
    return bytes(found).hex() if isinstance(found, bytes) else getattr(found, "hex", None)


def _number(txn: Any) -> int | None:
    return None if txn is None else int(txn)


class TapReader:
    """The proxy's counts of one run. `entrances` are the links that clients come in by, by name.

    What the router sends on to the shards bears the same comments: counted on those links as well, one send would be
    two at once. So the tap listens at the entrances alone.
    """

    def __init__(self, recorder: Recorder, control: str, run: str, entrances: Sequence[str]) -> None:
        self._recorder = recorder
        self._control = control
        self._run = run
        self._entrances = entrances

    async def begin(self) -> None:
        """Count from here on. Raises what `Connection.command` raises."""
        control = await ProxyControl.open(self._control)
        try:
            await control.tap(True, self._entrances, clear=True)
        finally:
            control.close()

    async def end(self) -> None:
        """Write down what was counted, and count no more. Raises CountsLost where rows found no room."""
        control = await ProxyControl.open(self._control)
        try:
            writes, transactions, commands = [
                await control.counts(by, limit=tap.ROWS, **wanted)
                for by, wanted in (("comment", {"run": self._run}), ("transaction", {}), ("command", {}))
            ]
            await control.tap(False)
        finally:
            control.close()
        for row in writes:
            times = {name: round(row[name], 6) for name in ("first", "last")}
            self._recorder.record("tap", TAP, write=row["write"], execution=row["execution"], **_counts(row), **times)
        for row in transactions:
            self._recorder.record(
                "tap.transaction", TAP, lsid=bytes(row["lsid"]).hex(), txn=int(row["txnNumber"]), **_counts(row)
            )
        for (link, command), total in _by_command(commands).items():
            self._recorder.record("tap.command", TAP, link=link, command=command, **total)


def _counts(row: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(row[name]) for name in ("total", "most", "now", "unanswered")}


def _by_command(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, int]]:
    """Requests that write, by link and by the name under which servers count them; whoever sent them, on whatever."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        if row["command"] in WRITES:
            sums = found.setdefault((row["link"], WRITES[row["command"]]), {"total": 0, "now": 0, "unanswered": 0})
            for name in sums:
                sums[name] += int(row[name])
    return found
