"""What the router does not do, and how it says so: one line that names the stand-in router and the way out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.router.errors import RouterError
from clusters.router.rewrite import elements, number
from clusters.wire.message import Message


def common(message: Message) -> RouterError | None:
    """What no command may ask for: a transaction, or the strict Stable API."""
    body = message.body
    # A byte search spares walking almost every message; what it finds may stand deeper, in somebody's document.
    if not any(one in body for one in _LOOKED_FOR):
        return None
    for element in elements(body):
        if element.name in ("startTransaction", "autocommit"):
            return transaction()
        if element.name == "apiStrict" and number(body, element):
            return strict_api()
    return None


_LOOKED_FOR: Final = (b"startTransaction\x00", b"autocommit\x00", b"apiStrict\x00")

_AUTHENTICATION: Final = frozenset(
    ("saslStart", "saslContinue", "authenticate", "getnonce", "logout", "createUser", "updateUser", "dropUser",
     "dropAllUsersFromDatabase", "createRole", "updateRole", "dropRole", "dropAllRolesFromDatabase",
     "grantRolesToUser", "revokeRolesFromUser", "grantPrivilegesToRole", "revokePrivilegesFromRole",
     "grantRolesToRole", "revokeRolesFromRole", "invalidateUserCache")
)  # fmt: skip
_TRANSACTIONS: Final = frozenset(("commitTransaction", "abortTransaction", "coordinateCommitTransaction"))
_OF_MEMBERS: Final = frozenset(
    ("replSetGetStatus", "replSetGetConfig", "replSetStepDown", "replSetReconfig", "replSetFreeze", "fsync",
     "fsyncUnlock", "top", "shutdown", "profile", "compact", "reIndex", "logRotate", "lockInfo", "getDiagnosticData",
     "clearLog", "logMessage", "rotateCertificates", "dropConnections", "connPoolSync", "cleanupOrphaned",
     "splitVector", "setIndexCommitQuorum", "setProfilingFilterGlobally", "startRecordingTraffic",
     "stopRecordingTraffic", "refreshLogicalSessionCacheNow", "validateDBMetadata", "shardingState",
     "compactStructuredEncryptionData")
)  # fmt: skip
_NOT_BUILT: Final = frozenset(
    ("mapReduce", "mapreduce", "filemd5", "mergeChunks", "multicast", "reshardCollection", "abortReshardCollection",
     "commitReshardCollection", "cleanupReshardCollection", "clearJumboFlag", "repairShardedCollectionChunksHistory",
     "availableQueryOptions", "whatsmysni")
)  # fmt: skip
"""A mongos of 6.0 does them."""


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
    if command in _NOT_BUILT:
        return RouterError(
            115,
            "CommandNotSupported",
            f"the stand-in router does not do {command} (it is used only where no mongos is found);"
            " set MONGODB_BINARIES to a release that has one",
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


def on_admin_alone(command: Mapping[str, Any]) -> None:
    """Raises RouterError, in a server's words, for a command that has to be sent to `admin` and was not."""
    if command["$db"] != "admin":
        name = next(iter(command))
        raise RouterError(13, "Unauthorized", f"{name} may only be run against the admin database.")


def fail_point(name: Any, hosts: Sequence[tuple[str, str]]) -> RouterError:
    """The router has no server's code to fail in, but for `failCommand`."""
    members = ", ".join(f"{host} ({shard})" for shard, host in hosts)
    return RouterError(
        266,
        "FailPointSetFailed",
        f"of the fail points the stand-in router has failCommand, found {name!r}; set it on the members: {members}",
    )


def explain() -> RouterError:
    return RouterError(
        115, "CommandNotSupported", "the stand-in router does not explain a change stream; send explain to the member"
    )


def collectionless(pipeline: Any) -> RouterError:
    stage = next(iter(pipeline[0]), "") if isinstance(pipeline, list) and pipeline and pipeline[0] else "no stage"
    return RouterError(
        115,
        "CommandNotSupported",
        "of aggregates without a collection the stand-in router does $currentOp, $changeStream and $documents,"
        f" found {stage}",
    )


def strict_api() -> RouterError:
    """The `cluster*` names are in no version of the Stable API: a server refuses them under apiStrict (323)."""
    return RouterError(323, "APIStrictError", "the stand-in router cannot keep to apiStrict: true; leave it out")
