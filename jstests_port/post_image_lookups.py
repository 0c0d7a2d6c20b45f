"""Where a post-image was looked up: the lookup's own entry in a member's profiler.

Where a lookup is routed, it is a read with the comment of its stream: an aggregate, of older servers a find, which is
what upstream's tests looked for then. From 9.0 on most are read where the stream runs and leave no entry.
"""

from __future__ import annotations

from typing import Any

from jstests_port.change_streams import Collection
from jstests_port.mongo import Document

STALE_CONFIG = 13388
_ANY = {"$exists": True}


def lookups(collection: Collection, comment: str, id: Any = _ANY) -> Document:
    """What matches the entries of lookups; of the document `id`, or of any. Attempts that only learned that the routing
    was stale are left out."""
    return {
        "ns": collection.full_name,
        "command.comment": comment,
        "errCode": {"$ne": STALE_CONFIG},
        "$or": [{"command.pipeline.0.$match._id": id}, {"command.filter._id": id}],
    }
