"""Commands on a collection in a form that is carried out and changes nothing: what a proof may send.

An array is no `_id`, and the collection is not made for it (measured on 6.0.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

HARMLESS: Final[Mapping[str, Mapping[str, Any]]] = {
    "aggregate": {"pipeline": [{"$limit": 1}], "cursor": {}},
    "count": {},
    "delete": {"deletes": [{"q": {"_id": {"$in": []}}, "limit": 1}]},
    "distinct": {"key": "_id"},
    "find": {"limit": 1, "singleBatch": True},
    "findAndModify": {"query": {"_id": {"$in": []}}, "remove": True},
    "insert": {"documents": [{"_id": [1]}]},
    "update": {"updates": [{"q": {"_id": {"$in": []}}, "u": {"$set": {"x": 1}}}]},
}
"""Their fields behind the first, by name."""
