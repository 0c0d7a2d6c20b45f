"""Where in a stream of messages one is, told from lengths alone, so that reading can begin on an open connection."""

from __future__ import annotations

import struct
from typing import Final

from clusters.wire.message import HEADER, MAX_MESSAGE, OP_COMPRESSED, OP_MSG, OP_QUERY, OP_REPLY

KNOWN: Final = frozenset((OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG, 2001, 2002, 2005, 2006, 2007, 2010, 2011))
"""Op codes of the wire protocol, the removed ones too."""
LENGTH: Final = struct.Struct("<i")
START: Final = struct.Struct("<iiiiI")
"""Header and flags: no message is shorter (of an OP_REPLY they are none of OP_MSG's)."""
BEGUN: Final = -1


class Frames:
    """One direction of a connection. `left` is how many bytes the message that has begun still lacks: 0 between two
    messages, BEGUN while not even its length is there."""

    __slots__ = ("_head", "left", "lost")

    def __init__(self) -> None:
        self.left = 0
        self.lost = False
        """What came is no message: from here on nobody can tell where one begins."""
        self._head = b""

    def rest(self, arrived: bytes | memoryview) -> int:
        """How many of these bytes end the message that has begun; they count as seen."""
        at = 0
        if self.left == BEGUN:
            at = min(LENGTH.size - len(self._head), len(arrived))
            self._head += bytes(arrived[:at])
            if len(self._head) < LENGTH.size:
                return at
            self.left = self._length(LENGTH.unpack(self._head)[0]) - LENGTH.size
            self._head = b""
            if self.lost:
                return at
        took = min(self.left, len(arrived) - at)
        self.left -= took
        return at + took

    def see(self, arrived: bytes | memoryview) -> None:
        """These bytes come next."""
        at = self.rest(arrived) if self.left else 0
        end = len(arrived)
        while at < end and not self.lost:
            if end - at < LENGTH.size:
                self._head, self.left = bytes(arrived[at:]), BEGUN
                return
            length = self._length(LENGTH.unpack_from(arrived, at)[0])
            took = min(length, end - at)
            self.left = length - took
            at += took

    def _length(self, found: int) -> int:
        if not HEADER.size <= found <= MAX_MESSAGE:
            self.lost = True
            return LENGTH.size
        return found
