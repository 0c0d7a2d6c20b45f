"""A reply passed on from the router host: its operationTime becomes the cluster time, whatever its length."""

from __future__ import annotations

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from clusters.router.replies import passed_on
from clusters.wire.message import Message, decode, encode_body, encode_document


@pytest.mark.parametrize("size", [0, 60, 100, 1000])
def test_the_operation_time_of_a_reply_passed_on_is_its_cluster_time(size: int) -> None:
    signature = {"hash": bytes(20), "keyId": Int64(0)}
    reply = {
        "cursor": {"firstBatch": [], "id": Int64(0), "ns": "x" * size},
        "ok": 1.0,
        "$clusterTime": {"clusterTime": Timestamp(20, 2), "signature": signature},
        "operationTime": Timestamp(10, 1),
    }
    message = Message(encode_body(encode_document(reply), request_id=7, response_to=5))
    answer = decode(Message(passed_on(message)).body)
    assert answer == {**reply, "operationTime": Timestamp(20, 2)}
