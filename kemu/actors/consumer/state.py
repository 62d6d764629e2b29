"""The states of a member, and what it knows of its membership.

Source: Kafka's ``AbstractCoordinator.MemberState`` and ``Generation``.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, MemberId


class MemberState(Enum):
    """The states of Kafka's ``AbstractCoordinator``, and two for a consumer that is of no use any more."""

    UNJOINED = "UNJOINED"
    """Not a member, or not known to be one any more. Silent.

    leads to: PREPARING_REBALANCE when a poll sends JoinGroup
    """
    PREPARING = "PREPARING_REBALANCE"
    """JoinGroup is under way. No heartbeats: the coordinator takes the parked request for a sign of life.

    leads to: COMPLETING_REBALANCE on its success; UNJOINED when reset
    """
    COMPLETING = "COMPLETING_REBALANCE"
    """SyncGroup is under way, or the leader computes. Heartbeats run.

    leads to: STABLE on its success; PREPARING_REBALANCE when it failed; UNJOINED when reset
    """
    STABLE = "STABLE"
    """An assignment was received. Heartbeats run, commits are allowed.

    leads to: PREPARING_REBALANCE when a rejoin is needed; UNJOINED when reset
    """
    CLOSED = "CLOSED"
    """Closed cleanly. Final."""
    FAILED = "FAILED"
    """A fatal error was raised to the application. Final."""


_LIVING = frozenset({MemberState.UNJOINED, MemberState.PREPARING, MemberState.COMPLETING, MemberState.STABLE})

MAY_FOLLOW: dict[MemberState, frozenset[MemberState]] = {
    MemberState.UNJOINED: _LIVING - {MemberState.UNJOINED},
    MemberState.PREPARING: _LIVING - {MemberState.PREPARING},
    MemberState.COMPLETING: frozenset({MemberState.PREPARING}),
    MemberState.STABLE: frozenset({MemberState.COMPLETING}),
    MemberState.CLOSED: _LIVING,
    MemberState.FAILED: _LIVING,
}
"""New state: the states it may follow."""

BEATING = (MemberState.COMPLETING, MemberState.STABLE)


class Generation(NamedTuple):
    """What a member knows of its membership; requests remember the one they were sent with."""

    id: int
    member_id: MemberId
    protocol: str | None


NEVER_JOINED: Final = Generation(NO_GENERATION, UNKNOWN_MEMBER, None)


class Retry(Enum):
    """What the join loop does after a failure."""

    NOW = "now"
    LATER = "after a backoff"
    NEVER = "raise"


class Joined(NamedTuple):
    """SyncGroup succeeded: the bytes of the assignment."""

    assignment: bytes


class Refused(NamedTuple):
    """JoinGroup or SyncGroup failed."""

    retry: Retry
    error: ErrorCode
    why: str
    exception: str = ""
    """What Kafka's client raises, where that is not named as the error is."""


Outcome: TypeAlias = Joined | Refused


class Result(Enum):
    """How a commit ended."""

    DONE = "done"
    RETRIABLE = "may succeed when tried again"
    FAILED = "CommitFailedException, or another error for the application"
    REBALANCING = "RebalanceInProgressException"
