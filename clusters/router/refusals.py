"""What the router does not do, and how it says so: one line that names the stand-in router and the way out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router.errors import RouterError

TRANSACTION_FIELDS: Final = (b"startTransaction\x00", b"autocommit\x00")
"""As bytes, to be looked for in a message before it is read."""

_AUTHENTICATION: Final = frozenset(
    ("saslStart", "saslContinue", "authenticate", "getnonce", "logout", "createUser", "updateUser", "dropUser",
     "createRole", "grantRolesToUser", "usersInfo", "rolesInfo")
)  # fmt: skip
_TRANSACTIONS: Final = frozenset(("commitTransaction", "abortTransaction", "coordinateCommitTransaction"))
_OF_MEMBERS: Final = frozenset(
    ("replSetGetStatus", "replSetGetConfig", "replSetStepDown", "replSetReconfig", "replSetFreeze", "fsync",
     "fsyncUnlock", "killOp", "validate", "top", "getLog", "shutdown", "profile")
)  # fmt: skip


def transaction() -> RouterError:
    return RouterError(
        263,
        "OperationNotSupportedInTransaction",
        "the stand-in router does not support transactions (it is used only where no mongos is found);"
        " set MONGODB_BINARIES to a release that has one",
    )


def unknown(command: str) -> RouterError:
    """For a command that no part of the router does."""
    if command in _TRANSACTIONS:
        return transaction()
    if command in _AUTHENTICATION:
        return RouterError(
            18,
            "AuthenticationFailed",
            f"the stand-in router does not support authentication ({command}); connect without a user and password",
        )
    if command in _OF_MEMBERS:
        return RouterError(
            115, "CommandNotSupported", f"{command} is not supported through the stand-in router; send it to the member"
        )
    if command.startswith(("cluster", "_")):
        return RouterError(
            20, "IllegalOperation", f"the stand-in router takes no {command} from a client: only servers say it"
        )
    return RouterError(
        59,
        "CommandNotFound",
        f"the stand-in router does not do {command!r}: it is used only where no mongos is found;"
        " set MONGODB_BINARIES to a release that has one",
    )


def explain() -> RouterError:
    return RouterError(115, "CommandNotSupported", "the stand-in router does not explain; send explain to the member")


def collectionless(pipeline: Any) -> RouterError:
    stage = next(iter(pipeline[0]), "") if isinstance(pipeline, list) and pipeline and pipeline[0] else "no stage"
    return RouterError(
        115,
        "CommandNotSupported",
        f"of aggregates without a collection the stand-in router does $currentOp and $changeStream, found {stage}",
    )


def stable_api(command: Mapping[str, Any]) -> RouterError | None:
    """The `cluster*` names are in no version of the Stable API, so a declared one cannot be kept to."""
    if "apiVersion" not in command:
        return None
    return RouterError(322, "APIVersionError", "the stand-in router does not know the Stable API; connect without it")
