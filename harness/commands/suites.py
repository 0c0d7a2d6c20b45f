"""What suites of scenarios share on the command line: `run SCENARIO --suite NAME`, and the page that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from clusters.errors import Refused
from harness.output import say
from harness.scenarios.parameters import option_name

Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite of one scenario. `page` is what it writes, called `written`, unless --findings says otherwise; `part` the
    option by which some of it is asked for. `carry_out` is given all options and ends with the suite's exit code.
    """

    name: str
    about: str
    page: Path
    written: str
    part: str
    part_about: str
    carry_out: Callable[[Given], None]

    @property
    def extra(self) -> dict[str, Any]:
        """Its options: their types and typer's."""
        where = f"Where the suite's {self.written} is written. [default: {self.page}]"
        return {
            "suite": (str, typer.Option(None, "--suite", help=f"'{self.name}': {self.about}")),
            "findings": (Path, typer.Option(None, "--findings", help=where)),
            self.part: (list[str], typer.Option([], f"--{self.part}", help=self.part_about)),
        }

    def instead(self, body: Callable[[Given], None]) -> Callable[[Given], None]:
        """The command's body, but for where the suite is asked for."""

        def either(given: Given) -> None:
            if given["suite"] is not None:
                if given["suite"] != self.name:
                    raise Refused(f"--suite {given['suite']}: expected {self.name}")
                self.carry_out(given)
            if given["findings"] is not None or given[self.part]:
                raise Refused(f"--findings and --{self.part} are the suite's: give --suite {self.name} as well")
            body({name: value for name, value in given.items() if name not in self.extra})

        return either

    def alone(self, given: Given, others: Iterable[str], why: str) -> None:
        """Raises Refused where one of these options is given, saying why it is not to be."""
        named = ", ".join(option_name(name) for name in others if given[name] not in (None, [], False))
        if named:
            raise Refused(f"--suite {self.name} {why}: leave out {named}")


def teller(given: Given) -> Callable[[str], None]:
    """Who is told a line for each run."""
    return (lambda _line: None) if given["json"] or given["quiet"] else say


@contextmanager
def writable(page: Path) -> Iterator[None]:
    """Known to be so before minutes are spent; of a page that was not there nothing is left where none came of it.

    Raises Refused.
    """
    new = not page.exists()
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    except OSError as error:
        raise Refused(f"the finding {page} cannot be written ({error.strerror}): choose another --findings") from None
    try:
        yield
    except BaseException:
        if new:
            page.unlink(missing_ok=True)
        raise
