"""What the writes of a run have left in their collection, read at the end from the majority."""

from __future__ import annotations

from typing import Any, Final

from pymongo.read_concern import ReadConcern

from harness.drivers.clients import close_client, open_client, start_session
from harness.drivers.kinds import shown
from harness.history import Recorder

SOURCE: Final = "census"


async def record_effects(recorder: Recorder, uri: str, namespace: str, run: str) -> list[dict[str, Any]]:
    """Record `effects` with all documents of the namespace, by the order of their writes. Raises PyMongoError."""
    client = open_client(uri, app_name=f"mongofault {run} census"[:128])
    try:
        database, _, name = namespace.partition(".")
        collection: Any = client[database].get_collection(name, read_concern=ReadConcern("majority"))
        # What one member acknowledged may not be the majority's yet: the read waits for all that was done so far.
        async with await start_session(client) as session:
            await client.admin.command("ping", session=session)
            documents = [shown(document) async for document in collection.find({}, session=session)]
    finally:
        await close_client(client)
    documents.sort(key=lambda one: (str(one.get("write")), one.get("execution") or 0, one.get("part", 0)))
    recorder.record("effects", SOURCE, documents=documents)
    return documents
