"""Hand-made histories of runs that ask who waits behind a refresh; and such runs as a user starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aftermath import Place
from harness.drivers.routed import Operation, Setting
from harness.scenarios import stale_cases
from harness.scenarios.stale_cases import Case
from history_builder import History
from stall_parts import Outcome, outcome

HELD, SENT, RELEASED = 5.0, 5.5, 6.6
"""Seconds of run time."""
QUICK: Final = 0.004
AT_RELEASE: Final = RELEASED + 0.05
ROUTERS: Final[Mapping[Setting, str]] = {"fine": "shard3-0", "coarse": "shard4-0"}
SPLIT: Final = stale_cases.isolation("split", "fail-point", 1.0)


def run(place: Place, *options: str) -> Outcome:
    return outcome(place, place.start("run", "stale-shard", "--seed", "7", *options))


class Routed(History):
    """A run in which each router did what its case has of it, but for what a test says it did otherwise."""

    def __init__(self, case: Case = SPLIT, *, settings: Sequence[Setting] = ("fine", "coarse")) -> None:
        super().__init__()
        self.case = case
        self.settings = settings
        self.ended: dict[tuple[str, str], dict[str, Any]] = {}
        self.applied: dict[tuple[str, str], int] = {}
        self.counters: dict[tuple[str, str, str], Mapping[str, int] | None] = {}
        self.never_sent: set[tuple[str, str]] = set()

    def does(self, setting: Setting, name: str, *, at: float | None = QUICK, code: int | None = None) -> None:
        """`at`: seconds after it was sent; None: it is never answered."""
        self.ended[setting, name] = {"at": at, "code": code}

    def build(
        self, *, fault: bool = True, expected: Sequence[str] = ("isolated",), ended: str = "completed"
    ) -> History:
        parameters = {"case": self.case.name, "hold": 1.0, "within": 0.5}
        self.begun(parameters, expected)
        self.phases(bring_up=0.1, load=1.0, settle=3.0, hold=SENT, release=RELEASED, recover=6.8, check=7.5)
        self.add(4.0, "phase", name="break")
        if fault:
            self.fault(opened=4.0, proven=HELD - 0.1, healed=RELEASED + 0.02, recovered=7.0)
        for setting in self.settings:
            self._router(setting)
        self.add(8.0, "run.ended", reason=ended, detail="")
        return self

    def begun(self, parameters: Mapping[str, Any], expected: Sequence[str]) -> None:
        server = {"version": "6.0.5", "git_version": "c9a99c1203ea", "router": "stand-in", "parameters": {}}
        self.add(
            0.0, "run.started", scenario="stale-shard", parameters=parameters, expected=list(expected), seed=7,
            server=server, driver={},
        )  # fmt: skip

    def _router(self, setting: Setting) -> None:
        case, router = self.case, ROUTERS[setting]
        expected = case.expected[setting]
        self.add(
            2.0, "routing.case", case=case.name, router=router, setting=setting, in_process=True, control=case.control,
            untold=case.untold, within=0.5, operations=[one.name for one in case.operations],
            expected=expected.recorded(),
        )  # fmt: skip
        stale = dict.fromkeys(expected.counters, 3)
        after = {name: 3 + least for name, (least, _most) in expected.counters.items()}
        for t, when, values in ((3.1, "primed", stale), (3.5, "stale", stale), (7.1, "released", after)):
            read = self.counters.get((setting, when, "values"), values)
            self.add(t, "catalog", member=router, when=when, values=read, error=None)
        self.add(HELD, "routing", router=router, what="held", pending=[])
        self.add(RELEASED, "routing", router=router, what="released", pending=[])
        documents = []
        for operation in case.operations:
            if (setting, operation.name) not in self.never_sent:
                documents.append(self._operation(setting, operation))
        self.add(7.2, "routing.documents", router=router, documents=documents)

    def _operation(self, setting: Setting, operation: Operation) -> list[Any]:
        """As it is expected, or as it is said to have gone; its document at the end."""
        expected = self.case.expected[setting]
        codes = expected.errors.get(operation.name, ())
        waits = operation.name in expected.waiting
        usual = {"at": AT_RELEASE - HELD if waits else QUICK, "code": codes[0] if codes else None}
        ended = self.ended.get((setting, operation.name), usual)
        router, code = ROUTERS[setting], ended["code"]
        self.add(
            HELD, "routed.op", router=router, op=operation.name, command=operation.command, belongs=operation.belongs,
            region=operation.region, namespace="db.watched",
        )  # fmt: skip
        if ended["at"] is not None:
            self.add(
                HELD + ended["at"], "routed.ended", router=router, op=operation.name, seconds=ended["at"],
                outcome="ok" if code is None else "failed", code=code, code_name=None, error=code and "x",
            )  # fmt: skip
        done = int(operation.writes and code is None and ended["at"] is not None)
        return [operation.name, self.applied.get((setting, operation.name), done)]
