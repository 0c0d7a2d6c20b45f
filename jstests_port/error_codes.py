"""The server's error codes by upstream's names, as far as the tests ask for them (error_codes.yml of 6.0)."""

from __future__ import annotations

from enum import IntEnum


class ErrorCodes(IntEnum):
    InternalError = 1
    BadValue = 2
    TypeMismatch = 14
    LockTimeout = 24
    MaxTimeMSExpired = 50
    WriteConcernFailed = 64
    InvalidOptions = 72
    NoProgressMade = 82
    ConflictingOperationInProgress = 117
    TransactionTooOld = 225
    ClientDisconnect = 279
    ShardInvalidatedForTargeting = 304
    NotWritablePrimary = 10107
    DuplicateKey = 11000
    InterruptedAtShutdown = 11600
    Interrupted = 11601
    StaleConfig = 13388
