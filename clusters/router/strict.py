"""What a mongos says of a command before it looks at what it means: a field it does not know, a wrong database.

Only of those commands that go to a shard in another form, or are done here; the others a server reads itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router.errors import RouterError

_GENERIC: Final = frozenset(
    ("comment", "maxTimeMS", "writeConcern", "readConcern", "lsid", "txnNumber", "apiVersion", "apiStrict",
     "apiDeprecationErrors")
)  # fmt: skip
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "collMod": frozenset(
        ("index", "validator", "validationLevel", "validationAction", "viewOn", "pipeline", "expireAfterSeconds",
         "timeseries", "changeStreamPreAndPostImages", "cappedSize", "cappedMax", "collectionUUID", "dryRun")
    ),
    "deleteIndexes": frozenset(("index", "collectionUUID")),
    "drop": frozenset(),
    "endSessions": frozenset(),
    "killCursors": frozenset(("cursors",)),
    "listDatabases": frozenset(("filter", "nameOnly", "authorizedDatabases")),
    "refreshSessions": frozenset(),
    "dropDatabase": frozenset(),
    "dropIndexes": frozenset(("index", "collectionUUID")),
    "renameCollection": frozenset(("to", "dropTarget", "stayTemp")),
}  # fmt: skip


MAX_TIME_MS: Final = 2**31 - 1


class Asked(dict[str, Any]):
    """A command as a client sent it: a field that it lacks is the client's fault, and told as a server tells it."""

    def __missing__(self, field: str) -> Any:
        why = f"BSON field '{next(iter(self))}.{field}' is missing but a required field"
        raise RouterError(40414, "Location40414", why)


_ON_ADMIN: Final = frozenset(("getParameter", "listDatabases", "setParameter"))


def time_limit(command: Mapping[str, Any]) -> float | None:
    """Seconds that a command may take (maxTimeMS), None without a limit. Raises RouterError as a server refuses it."""
    value = command.get("maxTimeMS", 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RouterError(2, "BadValue", "maxTimeMS must be a number")
    if not 0 <= value <= MAX_TIME_MS:
        raise RouterError(2, "BadValue", f"{int(value)} value for maxTimeMS is out of range [0, {MAX_TIME_MS}]")
    if value != int(value):
        raise RouterError(2, "BadValue", "maxTimeMS has non-integral value")
    return value / 1000 if value else None


def misread(command: Mapping[str, Any]) -> RouterError | None:
    name = next(iter(command))
    if name in _ON_ADMIN and command["$db"] != "admin":
        return RouterError(13, "Unauthorized", f"{name} may only be run against the admin database.")
    known = _FIELDS.get(name)
    if known is None:
        return None
    for field in command:
        if field != name and field not in known and field not in _GENERIC and not field.startswith("$"):
            return RouterError(40415, "Location40415", f"BSON field '{name}.{field}' is an unknown field.")
    return None
