"""Kinds of writes, as far as a prediction tells them apart: what the driver adds to each, what copies of it leave.

What the driver does with a kind is that kind's own knowledge (`drivers/kinds.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.drivers.kinds import KINDS


@dataclass(frozen=True, slots=True)
class Write:
    """`leaves`: what `{n}` copies of it make; `{times}` is that number in words.

    `numbered`: with retryWrites it carries lsid and txnNumber, so that the driver may resend it (specification of
    retryable writes). `takes_max_time`: pymongo has a maxTimeMS for it. `own_id`: the driver draws its `_id`, anew for
    each execution. `multi`: it changes many documents, each by itself, and may have been done in part.
    """

    name: str
    leaves: str
    numbered: bool = True
    takes_max_time: bool = False
    acknowledged: bool = True
    own_id: bool = False
    multi: bool = False
    bulk: bool = False


def _of(kind: str, leaves: str, *, own_id: bool = False, bulk: bool = False) -> Write:
    one = KINDS[kind]
    return Write(
        kind,
        leaves,
        numbered=one.retryable_by_the_driver,
        takes_max_time=one.takes_max_time,
        acknowledged=one.acknowledged,
        own_id=own_id,
        multi=one.prepared > 0,
        bulk=bulk,
    )


WRITES: Final[Mapping[str, Write]] = {
    write.name: write
    for write in (
        _of("insert", "documents: {n}", own_id=True),
        _of("insert-business-id", "one document; the other copies fail with a duplicate key"),
        _of("set", "the fields set {times}, by an older copy last if so it comes"),
        _of("inc", "the amount added {times}"),
        _of("replace-upsert", "one document, by an older copy last if so it comes"),
        _of("find-and-modify", "the change made {times}"),
        _of("bulk-ordered", "each write of the bulk made {times}", bulk=True),
        _of("bulk-unordered", "each write of the bulk made {times}", bulk=True),
        Write("bulk-multi", "each write of the bulk made {times}", numbered=False, multi=True, bulk=True),
        _of("update-many", "every document that matches changed {times}"),
        _of("delete-many", "what matches deleted, {times}"),
        _of("w0", "the write made once, or not at all"),
    )
}
"""`bulk-multi` is a bulk with at least one updateMany or deleteMany in it: the whole bulk then goes without a number
(measured on 6.0.5: [insertOne, updateMany] was sent once for each execution, its insert too)."""
