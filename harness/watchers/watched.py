"""The members as the watchers are given them: plain data, whoever started them and whether they still live."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.member import Member
from clusters.topology import Role


@dataclass(frozen=True, slots=True)
class WatchedMember:
    """A member and where it listens (`host` is `address:port`, also how its set's configuration names it)."""

    name: str
    host: str
    role: Role
    set_name: str

    @classmethod
    def of(cls, member: Member) -> WatchedMember:
        return cls(member.name, member.host, member.spec.role, member.spec.set_name)

    @property
    def holds_data(self) -> bool:
        """Whether watched documents live on it."""
        return self.role in (Role.SHARD, Role.REPLICA_SET)
