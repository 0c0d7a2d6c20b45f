"""A client's aggregate with $changeStream, checked, and the aggregate each shard gets for it. Pure.

Says in one line what the stand-in router does not do; knows nothing of connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bson.timestamp import Timestamp

from clusters.router.errors import RouterError
from clusters.router.merge import key
from clusters.router.read_preference import parse

_PASSED_ON = ("collation", "let", "maxTimeMS", "comment", "allowDiskUse")
_KIND = slice(18, 24)
_EVENT = "2B022C"
"""In a 6.0 token's KeyString, behind the 9 bytes of the cluster time: version 1, type 128 (a high-water mark has 0)."""
_STAND_IN = "the stand-in router (used where no mongos is found)"


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """`get_more_fields` go with every shard getMore too: the post-image lookup on the shard obeys this
    `$readPreference` and carries this `comment`."""

    database: str
    collection: str
    options: Mapping[str, Any]
    stages: tuple[Mapping[str, Any], ...]
    read_preference: Mapping[str, Any]
    aggregate_fields: Mapping[str, Any]
    comment: Any

    @classmethod
    def of(cls, command: Mapping[str, Any]) -> StreamRequest:
        """Raises RouterError for what is wrong or not built."""
        if not isinstance(command["aggregate"], str):
            raise _not_built("a change stream on a database or on the whole cluster", "watch a collection")
        options: Mapping[str, Any] = command["pipeline"][0]["$changeStream"]
        if not isinstance(options, Mapping):
            raise RouterError(6188500, "Location6188500", f"$changeStream takes a document, got {options!r}")
        if options.get("fullDocument", "default") not in ("default", "updateLookup"):
            raise _not_built(f"fullDocument {options['fullDocument']!r}", "use 'default' or 'updateLookup'")
        # Under needsMerge a shard leaves the pre-image to the router, and hands out a preImageId instead.
        if options.get("fullDocumentBeforeChange", "off") != "off":
            raise _not_built(
                f"fullDocumentBeforeChange {options['fullDocumentBeforeChange']!r}", "leave it out or use 'off'"
            )
        read_preference = command.get("$readPreference") or {"mode": "primary"}
        parse(read_preference)
        return cls(
            database=command["$db"],
            collection=command["aggregate"],
            options=options,
            stages=tuple(command["pipeline"][1:]),
            read_preference=read_preference,
            aggregate_fields={
                "readConcern": {"level": "majority", **(command.get("readConcern") or {})},
                **{name: command[name] for name in _PASSED_ON if name in command},
            },
            comment=command.get("comment"),
        )

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    @property
    def resume_key(self) -> str | None:
        """The order key of the event's token the client resumes from; None for a high-water mark or a time."""
        token = self.options.get("resumeAfter") or self.options.get("startAfter")
        if not isinstance(token, Mapping) or not isinstance(token.get("_data"), str):
            return None  # the shards say what is wrong with it
        return key(token) if key(token)[_KIND] == _EVENT else None

    @property
    def has_start(self) -> bool:
        """Whether the client said where to start."""
        return any(name in self.options for name in ("resumeAfter", "startAfter", "startAtOperationTime"))

    def shard_command(self, start: Timestamp | None) -> dict[str, Any]:
        """The aggregate for a shard; `start` is the common start where the client named none."""
        options = dict(self.options) if start is None else {**self.options, "startAtOperationTime": start}
        stages: list[Mapping[str, Any]] = [
            {"$changeStream": options},
            # Lets the router see that a chunk went to a new shard, whatever the user's stages filter.
            {"$_internalChangeStreamCheckTopologyChange": {}},
        ]
        if options.get("fullDocument") == "updateLookup":
            # needsMerge makes a 6.0 shard leave the lookup to the router; this stage brings it back, and with it the
            # shard's own routed lookup, which is what an 8.0 shard does by itself.
            stages.append({"$_internalChangeStreamAddPostImage": {"fullDocument": "updateLookup"}})
        return {
            "aggregate": self.collection,
            "pipeline": [*stages, *self.stages],
            "fromMongos": True,
            "needsMerge": True,
            "cursor": {"batchSize": 0},
            "writeConcern": {"w": 1},
            "$readPreference": self.read_preference,
            **self.aggregate_fields,
        }

    def get_more_fields(self, comment: Any) -> dict[str, Any]:
        """What each shard getMore carries; `comment` is the client getMore's own, if it has one."""
        fields: dict[str, Any] = {"$readPreference": self.read_preference}
        comment = self.comment if comment is None else comment
        if comment is not None:
            fields["comment"] = comment
        return fields


def _not_built(what: str, instead: str) -> RouterError:
    return RouterError(238, "NotImplemented", f"{what} is not built into {_STAND_IN}; {instead}, or use a mongos")
