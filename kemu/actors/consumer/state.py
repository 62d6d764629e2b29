"""The states of a member, and the member's view of its membership.

Source: Kafka's ``AbstractCoordinator.MemberState`` and ``Generation``.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, MemberId


class MemberState(Enum):
    """The states of Kafka's ``AbstractCoordinator``, and two final states of a closed or failed consumer."""

    UNJOINED = "UNJOINED"
    """The consumer is not a member, as far as it knows. The consumer sends no request to the group.

    leads to: PREPARING_REBALANCE when a poll sends JoinGroup
    """
    PREPARING = "PREPARING_REBALANCE"
    """JoinGroup is in flight. The member sends no heartbeats: the parked request keeps its session alive.

    leads to: COMPLETING_REBALANCE on its success; UNJOINED when reset
    """
    COMPLETING = "COMPLETING_REBALANCE"
    """SyncGroup is in flight, or the leader computes the assignment. Heartbeats run.

    leads to: STABLE on its success; PREPARING_REBALANCE when it failed; UNJOINED when reset
    """
    STABLE = "STABLE"
    """The member has its assignment. Heartbeats run, commits are allowed.

    leads to: PREPARING_REBALANCE when a rejoin is needed; UNJOINED when reset
    """
    CLOSED = "CLOSED"
    """The consumer was closed cleanly. Final."""
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
"""New state -> the states that may precede it."""

BEATING = (MemberState.COMPLETING, MemberState.STABLE)


class Generation(NamedTuple):
    """A member's view of its membership. Each request keeps the generation with which it was sent."""

    id: int
    member_id: MemberId
    protocol: str | None


NEVER_JOINED: Final = Generation(NO_GENERATION, UNKNOWN_MEMBER, None)


class Retry(Enum):
    """The reaction of the join loop to a failure."""

    NOW = "now"
    LATER = "after a backoff"
    NEVER = "raise"


class Joined(NamedTuple):
    """The outcome of a join after a successful SyncGroup: the bytes of the assignment."""

    assignment: bytes


class Refused(NamedTuple):
    """The outcome of a join after JoinGroup or SyncGroup failed."""

    retry: Retry
    error: ErrorCode
    why: str
    exception: str = ""
    """The exception of Kafka's client, if its name does not follow from the error's name."""


Outcome: TypeAlias = Joined | Refused


class Result(Enum):
    """The outcome of a commit."""

    DONE = "done"
    RETRIABLE = "may succeed when tried again"
    FAILED = "CommitFailedException, or another error for the application"
    REBALANCING = "RebalanceInProgressException"
