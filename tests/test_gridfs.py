"""GridFS through the router: 50 MB up and down, by pymongo's asynchronous API and by its synchronous one."""

from __future__ import annotations

import hashlib
import random
import uuid
from typing import Any, Final

import pytest
from gridfs import GridFSBucket
from gridfs.asynchronous.grid_file import AsyncGridFSBucket
from pymongo import MongoClient

from clusters.local import LocalCluster

pytestmark = [pytest.mark.live, pytest.mark.slow]

CONTENT: Final = random.Random(1).randbytes(50_000_000)
DIGEST: Final = hashlib.sha256(CONTENT).hexdigest()


async def test_50_megabytes_come_down_as_they_went_up_asynchronously(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        database = client[f"gridfs_{uuid.uuid4().hex[:8]}"]
        bucket = AsyncGridFSBucket(database)
        identity = await bucket.upload_from_stream("file", CONTENT)
        stream = await bucket.open_download_stream(identity)
        assert hashlib.sha256(await stream.read()).hexdigest() == DIGEST
        await bucket.delete(identity)
        assert await database.fs.chunks.count_documents({}) == 0
        await client.drop_database(database.name)


def test_50_megabytes_come_down_from_two_shards_as_they_went_up_synchronously(sharded: LocalCluster) -> None:
    with MongoClient[dict[str, Any]](sharded.uri) as client:
        database = client[f"gridfs_{uuid.uuid4().hex[:8]}"]
        chunks = f"{database.name}.fs.chunks"
        client.admin.command("enableSharding", database.name, primaryShard="shard0")
        client.admin.command("shardCollection", chunks, key={"files_id": 1, "n": 1})
        client.admin.command("moveRange", chunks, min={"files_id": 1, "n": 100}, toShard="shard1")
        bucket, identity = GridFSBucket(database), 1
        bucket.upload_from_stream_with_id(identity, "file", CONTENT)
        assert hashlib.sha256(bucket.open_download_stream(identity).read()).hexdigest() == DIGEST
        bucket.delete(identity)
        assert database.fs.chunks.count_documents({}) == 0
        client.drop_database(database.name)
