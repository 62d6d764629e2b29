"""The timers of a coordinator, and their keys."""

from enum import StrEnum

from kemu.actors.machine import TimerKey
from kemu.protocol.names import GroupId, MemberId


class GroupTimer(StrEnum):
    """The first element of a timer's key; the docstrings name the other elements."""

    SESSION = "session"
    """(group, id): the only timer of an id: of a pending id, of a new member, or of a member with a session."""
    JOIN = "join"
    """(group): the initial delay, or the rebalance timeout of a join phase."""
    SYNC = "sync"
    """(group): the time limit for the syncs of a generation (KAFKA-12890)."""
    REVOCATION = "revocation"
    """(group, id): the rebalance timeout of a member that must give up partitions (consumer protocol)."""
    MEMBER_JOIN = "member-join"
    """(group, id): the time for a classic member of a group of the consumer protocol to join, after it was told so."""
    MEMBER_SYNC = "member-sync"
    """(group, id): the time for a classic member of a group of the consumer protocol to sync after its join."""
    REGEX = "regex"
    """(group): the end of the resolution of a group's regular expressions (consumer protocol)."""
    LOAD = "load"
    """(partition): the time to begin reading a partition of the offsets topic, or the end of the reading."""
    WRITE = "write"
    """(number): the time limit of an append, or of an answer that waits for an append (Java). In Scala the broker
    limits the append.
    """
    LINGER = "linger"
    """(partition): the time to append the gathered writes of a partition of the offsets topic (Java)."""
    EXPIRE = "expire"
    """(): the time of the next check for expired offsets."""


def session_key(group: GroupId, member_id: MemberId) -> TimerKey:
    """The key of the timer of a member's session."""
    return (GroupTimer.SESSION, group, member_id)
