"""The states of a classic consumer group, and their transitions.

Source: Kafka's ``ClassicGroupState`` (GroupMetadata.scala before 4.0).
"""

from enum import Enum


class GroupState(Enum):
    """A group's state; the value is the name that Kafka prints."""

    EMPTY = "Empty"
    """The group has no members. Committed offsets and pending member ids may remain.

    answers: join of a new member by starting the initial delay; heartbeat, sync and known ids with UNKNOWN_MEMBER_ID;
        commits without a generation with NONE

    leads to: PREPARING with the first member; DEAD when deleted, expired or unloaded
    """

    PREPARING = "PreparingRebalance"
    """Members are joining or rejoining; their joins are parked.

    answers: heartbeat and sync with REBALANCE_IN_PROGRESS; commits of the old generation with NONE

    leads to: COMPLETING when all have joined or at the timeout; EMPTY without members; DEAD when unloaded
    """

    COMPLETING = "CompletingRebalance"
    """A generation began, and the leader has not sent the assignment yet; syncs are parked.

    answers: heartbeat with NONE; commit with REBALANCE_IN_PROGRESS; an unchanged join with the current generation

    leads to: STABLE with the assignment in the log; PREPARING on a changed join, a leave, an expired session or sync
        timer, a failed append; DEAD when unloaded
    """

    STABLE = "Stable"
    """Every member has its assignment.

    answers: heartbeat with NONE; sync with the current assignment; an unchanged follower's join with the current
        generation

    leads to: PREPARING on a changed join, a leave, an expired session or sync timer; DEAD when unloaded
    """

    DEAD = "Dead"
    """The group was unloaded, or its tombstone is being written. Since 4.0 requests do not find such a group.

    answers: COORDINATOR_NOT_AVAILABLE

    leads to: nothing
    """


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState


class GroupChange(Enum):
    """An event that changes a group's state."""

    JOIN_PHASE = "a join phase begins"
    GENERATION = "a join phase ends with members: the next generation begins"
    NO_MEMBERS = "a join phase ends without members"
    ASSIGNMENT = "the leader's assignment is in the log"
    END = "the group is unloaded, deleted or expired"


_JOIN_PHASE, _GENERATION, _NO_MEMBERS, _ASSIGNMENT, _END = GroupChange

TRANSITIONS: dict[GroupState, dict[GroupChange, GroupState]] = {
    EMPTY: {_JOIN_PHASE: PREPARING, _END: DEAD},
    PREPARING: {_GENERATION: COMPLETING, _NO_MEMBERS: EMPTY, _END: DEAD},
    COMPLETING: {_JOIN_PHASE: PREPARING, _ASSIGNMENT: STABLE, _END: DEAD},
    STABLE: {_JOIN_PHASE: PREPARING, _END: DEAD},
    DEAD: {_END: DEAD},
}
"""State -> the allowed changes, each with the next state. A loaded group starts in STABLE or EMPTY."""

MAY_FOLLOW: dict[GroupState, tuple[GroupState, ...]] = {
    new: tuple(old for old in GroupState if new in TRANSITIONS[old].values()) for new in GroupState
}
"""New state -> the states that may precede it."""
