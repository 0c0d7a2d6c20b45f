"""Names and categories of the server's error codes (6.0), as far as a fail point or a driver asks for them. Pure."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    1: "InternalError", 2: "BadValue", 4: "NoSuchKey", 6: "HostUnreachable", 7: "HostNotFound",
    8: "UnknownError", 9: "FailedToParse", 11: "UserNotFound", 13: "Unauthorized", 14: "TypeMismatch",
    18: "AuthenticationFailed", 20: "IllegalOperation", 24: "LockTimeout", 26: "NamespaceNotFound",
    27: "IndexNotFound", 43: "CursorNotFound", 46: "LockBusy", 48: "NamespaceExists", 50: "MaxTimeMSExpired",
    59: "CommandNotFound", 63: "OBSOLETE_StaleShardVersion", 64: "WriteConcernFailed", 67: "CannotCreateIndex",
    70: "ShardNotFound", 72: "InvalidOptions", 79: "UnknownReplWriteConcern", 82: "NoProgressMade",
    85: "IndexOptionsConflict", 86: "IndexKeySpecsConflict", 89: "NetworkTimeout", 91: "ShutdownInProgress",
    96: "OperationFailed", 100: "UnsatisfiableWriteConcern", 112: "WriteConflict", 115: "CommandNotSupported",
    117: "ConflictingOperationInProgress", 118: "NamespaceNotSharded", 125: "CommandFailed",
    133: "FailedToSatisfyReadPreference", 134: "ReadConcernMajorityNotAvailableYet", 136: "CappedPositionLost",
    150: "StaleEpoch", 175: "QueryPlanKilled", 189: "PrimarySteppedDown",
    202: "NetworkInterfaceExceededTimeLimit", 217: "IncompleteTransactionHistory", 222: "CloseChangeStream",
    225: "TransactionTooOld", 234: "RetryChangeStream", 237: "CursorKilled", 246: "SnapshotUnavailable",
    251: "NoSuchTransaction", 256: "TransactionCommitted", 262: "ExceededTimeLimit",
    263: "OperationNotSupportedInTransaction", 264: "TooManyFilesOpen", 266: "FailPointSetFailed",
    267: "PreparedTransactionInProgress", 279: "ClientDisconnect", 280: "ChangeStreamFatalError",
    286: "ChangeStreamHistoryLost", 290: "TransactionExceededLifetimeLimitSeconds",
    292: "QueryExceededMemoryLimitNoDiskUseAllowed", 314: "ObjectIsBusy", 317: "ConnectionPoolExpired",
    322: "APIVersionError", 323: "APIStrictError", 324: "APIDeprecationError",
    358: "InternalTransactionNotSupported", 9001: "SocketException",
    10003: "CannotGrowDocumentInCappedNamespace", 10107: "NotWritablePrimary", 10334: "BSONObjectTooLarge",
    11600: "InterruptedAtShutdown", 11601: "Interrupted", 11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk", 13436: "NotPrimaryOrSecondary", 17280: "OBSOLETE_KeyTooLong",
}  # fmt: skip

WITH_DETAILS: Final = {
    121: "DocumentValidationFailure", 249: "StaleDbVersion", 283: "WouldChangeOwningShard",
    304: "ShardInvalidatedForTargeting", 11000: "DuplicateKey", 13388: "StaleConfig",
}  # fmt: skip
"""Those that a server cannot raise without the details they carry."""

RESUMABLE: Final = frozenset(
    (6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 317, 358, 9001, 10107, 11600, 11602, 13435, 13436)
)
"""On these a change stream's aggregate gets the label ResumableChangeStreamError, whoever finds the error."""
NOT_RESUMABLE: Final = frozenset((280, 286))
"""On these any command gets the label NonResumableChangeStreamError."""


def name_of(code: int) -> str:
    """The `codeName` of an error code."""
    return NAMES.get(code) or WITH_DETAILS.get(code) or f"Location{code}"
