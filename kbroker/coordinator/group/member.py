"""One member of a group: who it is, what it supports, and which of its requests is held back.

Pure. A member that waits for the end of a rebalance has its JoinGroup (`join`) or SyncGroup
(`sync`) request parked here as an opaque correlation. Sessions are deadlines, not timers: a
heartbeat moves `session_deadline_ms` and nothing else, and the one timer of a member looks at the
deadline when it fires.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Protocols = list[tuple[str, bytes]]


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A member; owned by its group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols  # name and metadata, the member's favourite first
    assignment: bytes = b""
    is_new: bool = False  # has joined, but never got an answer: it does not know its id yet
    join: object | None = None  # correlation of the JoinGroup that waits, see `Group.hold_join`
    sync: object | None = None  # correlation of the SyncGroup that waits
    session_deadline_ms: float = field(default=0.0)  # monotonic
    timer_at_ms: float = field(default=0.0)  # when its timer fires; 0 = none is set

    @property
    def is_static(self) -> bool:
        """True for a member with a group instance id (KIP-345)."""
        return self.group_instance_id is not None

    def protocol_names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for one protocol; it is a bug to ask for one it did not send."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol}")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of the member's protocols that everybody supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {sorted(candidates)}")
