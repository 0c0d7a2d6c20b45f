"""What no run of a scenario shows: looks at one server of the suite's own, each on a fresh cluster, by a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from clusters.local import OwnCluster
from harness.suites.looks import checkout, hang_up, inside, shell

Look = Callable[[OwnCluster], Awaitable[Mapping[str, Any]]]
"""Given a replica set of one member, behind a proxy; what was seen, JSON-able. Raises what runs fail with."""

LOOKS: Final[Mapping[str, Look]] = {
    "checkout": checkout.look,
    "inside": inside.look,
    "hang-up": hang_up.look,
    "mongosh": shell.look,
}
