"""What the parts of a coordinator share: its books, its voice, its pen.

``CoordinatorBase`` is the machine as a group sees it; ``actors.coordinator.coordinator.Coordinator`` adds the
decisions. The writes below say what is to happen when an append is over: each is told ``(error, base_offset)`` in its
``Appended`` step.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.actors.machine import Caller, Machine, Received, Record
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinProtocol, LeaveGroupReply, OffsetCommit
from kemu.protocol.messages.records import StoredOffset
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, MemberId, TopicPartition, broker_host
from kemu.protocol.notes.groups import OffsetRemoved, RequestRefused

if TYPE_CHECKING:
    from kemu.actors.coordinator.group import Group
    from kemu.actors.coordinator.joining import JoiningGroup
    from kemu.actors.coordinator.members import Member
    from kemu.actors.coordinator.rebalance import RebalancingGroup

US_PER_MS = 1_000


# --- what waits for an append --------------------------------------------------------------------------------------


class NewGroupWrite(NamedTuple):
    """The empty record of a group that a join created."""

    group: "JoiningGroup"
    caller: Caller


class EmptyWrite(NamedTuple):
    """The record of a group that lost its last member, and the LeaveGroup that waits for it."""

    group: "RebalancingGroup"
    leave: tuple[Caller, LeaveGroupReply] | None


class SyncWrite(NamedTuple):
    """The leader's assignment."""

    group: "Group"
    generation: int
    assignments: dict[MemberId, bytes]


class ReplaceWrite(NamedTuple):
    """A static member under its new id, and how it was before."""

    group: "JoiningGroup"
    member: "Member"
    caller: Caller
    old_id: MemberId
    old_leader: MemberId
    old_protocols: tuple[JoinProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int


class CommitWrite(NamedTuple):
    """Committed offsets; ``refused`` are those that were not written, by their place in the request."""

    group: "Group"
    caller: Caller
    request: OffsetCommit
    values: tuple[tuple[TopicPartition, StoredOffset], ...]
    refused: dict[int, ErrorCode]


class RemoveOffsetsWrite(NamedTuple):
    """Tombstones of offsets that expired or were deleted one by one."""

    offsets: tuple[tuple["Group", TopicPartition], ...]
    why: str
    gone: tuple["Group", ...]
    """Groups that expired with their last offset."""
    reply: tuple[Caller, Any] | None


class DeleteJob:
    """A DeleteGroups request under way: answered when every partition's tombstones are written."""

    def __init__(self, caller: Caller, groups: tuple[GroupId, ...]) -> None:
        self.caller = caller
        self.groups = groups
        self.outcomes: list[ErrorCode] = [ErrorCode.NONE] * len(groups)
        self.running = 0


class DeleteGroupsWrite(NamedTuple):
    """The tombstones of some groups of one partition; ``places`` are theirs in the request."""

    job: DeleteJob
    groups: tuple["Group", ...]
    places: tuple[int, ...]


Write: TypeAlias = (
    NewGroupWrite | EmptyWrite | SyncWrite | ReplaceWrite | CommitWrite | RemoveOffsetsWrite | DeleteGroupsWrite
)


# --- partitions ----------------------------------------------------------------------------------------------------


class PartitionState(Enum):
    """What a coordinator can say of a partition of the offsets topic."""

    LOADING = "loading"
    """Its log is being read: COORDINATOR_LOAD_IN_PROGRESS."""
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read: NOT_COORDINATOR, as when it is not led here."""
    RESIGNED = "resigned"


class OffsetsPartition:
    """A partition of ``__consumer_offsets``: whether it is led here, and the groups it holds."""

    __slots__ = ("epoch", "groups", "log", "number", "records", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = f"{OFFSETS_TOPIC}-{number}"
        self.epoch = -1
        self.state = PartitionState.RESIGNED
        self.records: tuple[Record, ...] = ()
        """Only while loading."""
        self.groups: dict[GroupId, Group] = {}


class CoordinatorBase(Machine):
    """The books of a group coordinator, and what its parts may do through it."""

    def __init__(self, name: ActorName, node_id: int, config: BrokerConfig) -> None:
        super().__init__(name)
        assert config.coordinator_kind in GROUP_RULES, f"coordinator.kind {config.coordinator_kind!r} is unknown"
        self.node_id = node_id
        self.config = config
        self.rules = GROUP_RULES[config.coordinator_kind]
        self.partitions: dict[int, OffsetsPartition] = {}
        self.groups: dict[GroupId, Group] = {}
        """The groups of all active partitions."""
        self._member_count = 0
        self._last_token = 0
        self._writes: dict[int, tuple[OffsetsPartition, Write]] = {}

    @property
    def now_ms(self) -> int:
        """This host's clock as Kafka's records have it."""
        return self.now_us // US_PER_MS

    def new_member_id(self, base: str, partition: OffsetsPartition) -> MemberId:
        """An id nobody ever had: Kafka appends a random UUID, we the broker, its leader epoch and a count.

        Unique across restarts because a partition's leader epoch rises each time a broker begins to lead it.
        """
        self._member_count += 1
        return f"{base}-{broker_host(self.node_id)}.{partition.epoch}-{self._member_count}"

    def write(self, partition: OffsetsPartition, records: tuple[Record, ...], write: Write) -> None:
        """Append records to a partition's log; ``write`` goes on when that is done."""
        self._last_token += 1
        self._writes[self._last_token] = (partition, write)
        self.append(partition.log, records, self._last_token)

    def refuse(
        self, caller: Caller | Received, message: object, *, group: GroupId, api: str, member_id: str, error: ErrorCode
    ) -> None:
        """Answer with an error, and say so."""
        self.note(RequestRefused(group=group, api=api, member_id=member_id, error=error))
        self.reply(caller, message)

    def open_group(self, name: GroupId, partition: OffsetsPartition) -> "Group":
        """A new, empty group."""
        raise NotImplementedError

    def bring_back(self, group: "Group") -> None:
        """A group whose deletion could not be written is as it was."""
        raise NotImplementedError

    def forget(self, group: "Group") -> None:
        """A group whose tombstone is written is no more."""
        for topic, partition in group.offsets.committed:
            self.note(OffsetRemoved(group=group.name, topic=topic, partition=partition, why="the group was deleted"))
        if self.groups.get(group.name) is group:
            del self.groups[group.name]
            del group.partition.groups[group.name]
