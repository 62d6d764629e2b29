"""Notes about groups with the consumer protocol (KIP-848). ``protocol.notes.groups`` explains notes.

These groups and their members also report the notes of classic groups. There, "generation" is the member's epoch or the
group's epoch, and ``JoinPhaseCompleted`` says that the coordinator computed the target of this epoch.
"""

from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.values import value


@value
class GroupEpochsChanged:
    """A coordinator changed the epoch of a group or of the group's target; the epochs after the change."""

    group: str
    epoch: int
    target_epoch: int


@value
class GroupConverted:
    """A coordinator converted a group with members: ``protocol`` is the present protocol, classic or consumer.

    ``state``: the group's state after the conversion. ``members``: the former members that remain. A conversion that
    could not be written is followed by the note of the former protocol.
    """

    group: str
    protocol: str
    state: str
    generation: int
    members: tuple[str, ...]


@value
class MemberReconciled:
    """A coordinator changed what a member may own: ``assigned``, and ``revoking`` until the member has given it up.

    ``state``: STABLE, UNREVOKED_PARTITIONS or UNRELEASED_PARTITIONS.
    """

    group: str
    member_id: str
    epoch: int
    state: str
    assigned: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]
