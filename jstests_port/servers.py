"""Which servers the tests run on, and what a test needs of them that not every one has.

`MONGOFAULT_JSTESTS_VERSION` asks for a version that was installed (`mongofault binaries`); else those there are.
"""

from __future__ import annotations

import os

from clusters import quirks
from clusters.binaries import find_mongod, find_mongos


def asked_version() -> str | None:
    return os.environ.get("MONGOFAULT_JSTESTS_VERSION") or None


def version() -> str:
    """Of the mongod, as `6.0.5`. Raises Refused where there is none."""
    return find_mongod(asked_version()).version


def numbers() -> tuple[int, ...]:
    """Of the mongod, to be compared."""
    return quirks.numbers(version())


def has_mongos() -> bool:
    return find_mongos(asked_version()) is not None


def lacks_mongos() -> str | None:
    """Why what only a mongos shows cannot be shown, or None."""
    if has_mongos():
        return None
    return f"needs a mongos: none found beside mongod {version()}, expected one in MONGODB_BINARIES or on PATH"


def lacks_version(first: str, why: str) -> str | None:
    """Why what came with the line `first` (`6.0`) cannot be shown, or None; `why` names it."""
    found = version()
    if quirks.major_of(found) >= quirks.major_of(f"{first}.0"):
        return None
    return f"needs mongod {first} or later ({why}); this is {found}"
