"""By what login undo records reach servers that want one: in the environment of this process and of its guardian.

Never in a ledger, on disk or on a command line. Whoever may read a process's environment may read its memory as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

VARIABLE = "MONGOFAULT_LOGINS"


def entrust(hosts: Iterable[str], options: Mapping[str, Any]) -> None:
    """From now on undo records, also those of guardians started from now on, reach these hosts (`address:port`) with
    these options of the driver; with none where there are none."""
    known = _known() | {host: dict(options) for host in hosts}
    wanted = {host: one for host, one in known.items() if one}
    if wanted:
        os.environ[VARIABLE] = json.dumps(wanted)
    else:
        os.environ.pop(VARIABLE, None)


def options_for(host: str) -> dict[str, Any]:
    """What was entrusted for a host, or nothing."""
    return _known().get(host, {})


def _known() -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = json.loads(os.environ.get(VARIABLE, "{}"))
    return known
