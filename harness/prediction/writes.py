"""Kinds of writes, as far as a prediction tells them apart: what the driver adds to each, what copies of it leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


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


WRITES: Final[Mapping[str, Write]] = {
    write.name: write
    for write in (
        Write("insert", "documents: {n}", own_id=True),
        Write("insert-business-id", "one document; the other copies fail with a duplicate key"),
        Write("set", "the fields set {times}, by an older copy last if so it comes"),
        Write("inc", "the amount added {times}"),
        Write("replace-upsert", "one document, by an older copy last if so it comes"),
        Write("find-and-modify", "the change made {times}", takes_max_time=True),
        Write("bulk-ordered", "each write of the bulk made {times}", bulk=True),
        Write("bulk-unordered", "each write of the bulk made {times}", bulk=True),
        Write("bulk-multi", "each write of the bulk made {times}", numbered=False, multi=True, bulk=True),
        Write("update-many", "every document that matches changed {times}", numbered=False, multi=True),
        Write("delete-many", "what matches deleted, {times}", numbered=False, multi=True),
        Write("w0", "the write made once, or not at all", numbered=False, acknowledged=False),
    )
}
"""`bulk-multi` is a bulk with at least one updateMany or deleteMany in it: the whole bulk then goes without a number
(measured on 6.0.5: [insertOne, updateMany] was sent once for each execution, its insert too)."""
