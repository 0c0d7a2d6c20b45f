"""A node as the shell's `Mongo` is one: a driver connected to it alone, that knows its host, its name and its set."""

from __future__ import annotations

from typing import Any

from pymongo import AsyncMongoClient

Document = dict[str, Any]


class Mongo(AsyncMongoClient[Document]):
    """`host` is `address:port`; `shard_name` the name of its set, by which a shard is known too, or nothing for a
    router. Connects when first asked."""

    def __init__(self, host: str, *, name: str, shard_name: str = "", **options: Any) -> None:
        super().__init__(f"mongodb://{host}/", **options)
        self.host = host
        self.name = name
        self.shard_name = shard_name

    def __repr__(self) -> str:
        return f"{self.name} ({self.host})"
