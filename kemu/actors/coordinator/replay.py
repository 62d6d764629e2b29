"""The replay of a partition of ``__consumer_offsets`` from its beginning: the initial state of the coordinator.

The last value of each key is valid; a tombstone removes the key.

Source: Kafka's GroupMetadataManager.loadGroupsAndOffsets (scala) and CoordinatorLoaderImpl (java).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kemu.actors.coordinator.offsets import GroupOffsets, Kept
from kemu.actors.coordinator.second_log import KeptRange, SecondLogs
from kemu.actors.machine import Record
from kemu.protocol.messages.records import (
    GroupMetadata,
    GroupRecord,
    OffsetRecord,
    RangeProgressRecord,
    RangeRecord,
    decode_record,
    removed_count,
)
from kemu.protocol.names import GroupId

if TYPE_CHECKING:
    from kemu.actors.coordinator.consumer_group.state import ConsumerGroup
    from kemu.actors.coordinator.consumer_group.state import GroupRecord as ConsumerGroupRecord


class Replay:
    """The groups of one log, in order of first appearance.

    A group with offsets but without metadata is a simple group: its commits are from outside group management.
    ``holds_returned``: a rule of the coordinator (``GroupRules.holds_returned_partitions``).
    """

    def __init__(self, *, holds_returned: bool = True) -> None:
        self._holds_returned = holds_returned
        self.metadata: dict[GroupId, GroupMetadata] = {}
        self.offsets: dict[GroupId, GroupOffsets] = {}
        self.second: dict[GroupId, SecondLogs] = {}
        self._of_consumers: dict[GroupId, tuple[ConsumerGroup, ConsumerGroup]] = {}

    def take(self, records: Sequence[Record], first_position: int = 0) -> "Replay":
        """Read more records; the first record has this position in the log.

        Raises:
            CodecError: a record of a known kind cannot be decoded. Unknown kinds are skipped.
        """
        position = first_position
        for record in records:
            removed = removed_count(record)
            if not removed:
                self._take_record(record, position)
            position += removed or 1
        return self

    def _take_record(self, record: Record, position: int) -> None:
        match decode_record(*record):
            case GroupRecord(group=group, metadata=None):
                self.metadata.pop(group, None)
            case GroupRecord(group=group, metadata=metadata) if metadata is not None:
                self.metadata[group] = metadata
            case OffsetRecord() as offset:
                self._take_offset(offset, position)
            case RangeRecord() as token:
                self._take_range(token, position)
            case RangeProgressRecord() as progress:
                self._take_progress(progress, position)
            case None:
                from kemu.actors.coordinator.consumer_group.stored import decoded  # late: many logs have no such record

                of_consumers = decoded(*record)
                if of_consumers is not None:
                    self._take_of_consumers(*of_consumers)

    def _take_offset(self, record: OffsetRecord, position: int) -> None:
        offsets = self.offsets.setdefault(record.group, GroupOffsets())
        partition = (record.topic, record.partition)
        if record.value is None:
            offsets.remove(partition, position)
        else:
            offsets.commit(partition, Kept(record.value, position))

    def _take_of_consumers(self, group: GroupId, record: "ConsumerGroupRecord") -> None:
        states = self._of_consumers.get(group)
        if states is None:
            from kemu.actors.coordinator.consumer_group.state import ConsumerGroup

            working, committed = (ConsumerGroup(group, holds_returned=self._holds_returned) for _ in range(2))
            states = self._of_consumers[group] = working, committed
        for state in states:
            state.apply(record)

    def _take_range(self, record: RangeRecord, position: int) -> None:
        second = self.second.setdefault(record.group, SecondLogs())
        partition = (record.topic, record.partition)
        if record.value is None:
            second.close(partition, record.start, position)
        else:
            second.open(partition, record.start, KeptRange(record.value, position))

    def _take_progress(self, record: RangeProgressRecord, position: int) -> None:
        second = self.second.setdefault(record.group, SecondLogs())
        partition = (record.topic, record.partition)
        if record.value is None:
            second.remove_commit(partition, position)
        else:
            second.commit(partition, Kept(record.value, position))

    def second_of(self, group: GroupId) -> SecondLogs:
        """The second commit logs of a group, which may be empty."""
        return self.second.get(group) or SecondLogs()

    def offsets_of(self, group: GroupId) -> GroupOffsets:
        """The offsets of a group, which may be empty."""
        return self.offsets.get(group) or GroupOffsets()

    def consumer_group(self, group: GroupId) -> "tuple[ConsumerGroup, ConsumerGroup] | None":
        """Two equal states of a group with the consumer protocol; None if the log has no such group."""
        states = self._of_consumers.get(group)
        return states if states is not None and states[0].epoch else None

    def groups(self) -> tuple[GroupId, ...]:
        """All groups in the log: groups with metadata, groups with the consumer protocol, then simple groups."""
        of_consumers = [group for group in self._of_consumers if self.consumer_group(group) is not None]
        simple = [group for group, offsets in self.offsets.items() if not offsets.is_empty()]
        return tuple(dict.fromkeys([*self.metadata, *of_consumers, *simple]))


def replay(records: Sequence[Record], *, holds_returned: bool = True) -> Replay:
    """Replay a complete log, with this rule of the coordinator (``GroupRules.holds_returned_partitions``).

    Raises:
        CodecError: a record of a known kind cannot be decoded.
    """
    return Replay(holds_returned=holds_returned).take(records)
