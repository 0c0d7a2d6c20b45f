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


_ON_ADMIN: Final = frozenset(("getParameter", "listDatabases", "setParameter"))


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
