"""A client's aggregate with $changeStream, checked, and the aggregate each shard gets for it. Pure.

What a shard checks in the same words is left to it. Knows nothing of connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson.timestamp import Timestamp

from clusters.router.errors import RouterError
from clusters.router.merge import key, time_of
from clusters.router.read_preference import parse

COLLECTIONLESS: Final = "$cmd.aggregate"
"""The collection's name in the namespace of a stream on a database or on the cluster, as servers have it."""

_ANSWERED_HERE: Final = frozenset(
    ("aggregate", "pipeline", "cursor", "$db", "$clusterTime", "readConcern", "writeConcern", "$readPreference",
     "fromMongos", "needsMerge", "apiVersion", "apiStrict", "apiDeprecationErrors")
)  # fmt: skip
"""Of the client's aggregate. Everything else is passed on as given: comment, collation, let, maxTimeMS, lsid, and
what is wrong, for the shard to refuse."""
_KIND = slice(18, 24)
_EVENT = "2B022C"
"""In a 6.0 token's KeyString, behind the 9 bytes of the cluster time: version 1, type 128 (a high-water mark has 0)."""
_STARTS: Final = ("resumeAfter", "startAfter", "startAtOperationTime")


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
    lsid: Mapping[str, Any] | None
    merged: bool = True
    """Whether shards are asked for what a router merges (needsMerge), and told to look up all the same; before 6.0
    they cannot be told, so each is asked for a stream as its own client would, and looks up where that runs."""

    @classmethod
    def of(cls, command: Mapping[str, Any], *, merged: bool = True) -> StreamRequest:
        """Raises RouterError."""
        target = command["aggregate"]
        if not isinstance(target, str) and target != 1:
            raise RouterError(
                9, "FailedToParse", f"'aggregate' must be a collection's name, or 1 for a database; found {target!r}"
            )
        options: Mapping[str, Any] = command["pipeline"][0]["$changeStream"]
        _check_cursor(command)
        _check_options(options, command)
        read_preference = command.get("$readPreference") or {"mode": "primary"}
        parse(read_preference)
        return cls(
            database=command["$db"],
            collection=target if isinstance(target, str) else COLLECTIONLESS,
            options=options,
            stages=tuple(command["pipeline"][1:]),
            read_preference=read_preference,
            aggregate_fields={
                "readConcern": {"level": "majority", **(command.get("readConcern") or {})},
                **{name: value for name, value in command.items() if name not in _ANSWERED_HERE},
            },
            comment=command.get("comment"),
            lsid=command.get("lsid"),
            merged=merged,
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
        return any(name in self.options for name in _STARTS)

    def shard_command(self, start: Timestamp | None) -> dict[str, Any]:
        """The aggregate for a shard; `start` replaces whatever start the client named."""
        options = dict(self.options)
        if not self.merged and start is None:
            start = self._start_in_time()
        if start is not None:
            options = {name: value for name, value in options.items() if name not in _STARTS}
            options["startAtOperationTime"] = start
        return {
            "aggregate": 1 if self.collection == COLLECTIONLESS else self.collection,
            **self._as_router(options),
            "cursor": {"batchSize": 0},
            "writeConcern": {"w": 1},
            "$readPreference": self.read_preference,
            **self.aggregate_fields,
        }

    def _as_router(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if not self.merged:
            return {"pipeline": [{"$changeStream": options}, *self.stages]}
        return {
            "pipeline": [
                {"$changeStream": options},
                # Lets the router see that a chunk went to a new shard, whatever the user's stages filter.
                {"$_internalChangeStreamCheckTopologyChange": {}},
                *_image_stages(options),
                *self.stages,
            ],
            "fromMongos": True,
            "needsMerge": True,
        }

    def _start_in_time(self) -> Timestamp | None:
        """When the token was that the client resumes from: another shard does not take it from its own client."""
        token = self.options.get("resumeAfter") or self.options.get("startAfter")
        if not isinstance(token, Mapping) or not isinstance(token.get("_data"), str):
            return None
        return time_of(key(token))

    def get_more_fields(self, comment: Any) -> dict[str, Any]:
        """What each shard getMore carries; `comment` is the client getMore's own, if it has one."""
        fields: dict[str, Any] = {"$readPreference": self.read_preference}
        if self.lsid is not None:
            fields["lsid"] = self.lsid
        comment = self.comment if comment is None else comment
        if comment is not None:
            fields["comment"] = comment
        return fields


def _image_stages(options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """needsMerge makes a 6.0 shard leave pre- and post-images to the router (it hands out a preImageId instead).

    These stages bring them back, and with updateLookup the shard's own routed lookup, which is what an 8.0 shard does
    by itself. The pre-image first: the post-image of `required` and `whenAvailable` is made from it.
    """
    stages: list[Mapping[str, Any]] = []
    before = options.get("fullDocumentBeforeChange", "off")
    if before != "off":
        stages.append({"$_internalChangeStreamAddPreImage": {"fullDocumentBeforeChange": before}})
    after = options.get("fullDocument", "default")
    if after != "default":
        stages.append({"$_internalChangeStreamAddPostImage": {"fullDocument": after}})
    return stages


def _check_cursor(command: Mapping[str, Any]) -> None:
    """Here, for a shard gets a cursor document of the router's own."""
    cursor = command.get("cursor")
    if cursor is None:
        raise RouterError(9, "FailedToParse", "The 'cursor' option is required, except for aggregate with explain")
    if not isinstance(cursor, Mapping):
        raise RouterError(14, "TypeMismatch", f"cursor field must be an object, found {cursor!r}")
    whole_number("cursor.batchSize", cursor.get("batchSize"))


def _check_options(options: Any, command: Mapping[str, Any]) -> None:
    """What a shard would let pass and a mongos does not."""
    if not isinstance(options, Mapping):
        raise RouterError(
            6188500, "Location6188500", f"$changeStream must take a nested object but found: $changeStream: {options!r}"
        )
    if options.get("showMigrationEvents"):
        raise RouterError(31123, "Location31123", "Change streams from mongos may not show migration events")
    target = command["aggregate"]
    if isinstance(target, str) and target.startswith("system.") and options.get("allowToRunOnSystemNS"):
        raise RouterError(
            73,
            "InvalidNamespace",
            f"$changeStream may not be opened on the internal {command['$db']}.{target} collection through mongos",
        )


def whole_number(name: str, value: Any) -> int:
    """A batchSize or maxTimeMS as given, 0 where it is left out. Raises RouterError as a server refuses it."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RouterError(
            14, "TypeMismatch", f"BSON field '{name}' is the wrong type, expected a number, found {value!r}"
        )
    if value < 0:
        if name.endswith("maxTimeMS"):
            raise RouterError(2, "BadValue", f"{value} value for maxTimeMS is out of range")
        raise RouterError(51024, "Location51024", f"BSON field '{name}' value must be >= 0, actual value '{value}'")
    return int(value)
