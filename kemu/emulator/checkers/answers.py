"""Judges whether the error code in an answer, or its absence, matches the state of the cluster.

An answer is true if:

- UNKNOWN_TOPIC_OR_PARTITION of a broker: its metadata does not have the
  partition.
- NOT_LEADER_OR_FOLLOWER: the broker does not lead the partition.
- A leader that an error of Fetch or Produce names (KIP-951): the store had
  this leader with this epoch, and the error is one of outdated metadata.
  Such an error names the leader if the broker knows the store's leader.
- KAFKA_STORAGE_ERROR: an earlier fault hit a log or a disk.
- AlterIsr: the reply has each row of the request, with the requested ISR
  and epoch or with an error alone. The errors match the store's state.
- CreateTopics, CreatePartitions, DeleteTopics, ElectLeaders, reassignments:
  NONE if the store has the result; the error "exists", "unknown" or "not
  needed" if the store had that state before.

A controller's answer is judged only if no fault hit the controller, and the
store did not change, for 10 s. Other errors are not judged.

Source: Kafka 3.4 ``ReplicaManager.getPartitionOrError``,
``KafkaController``, ``ZkAdminManager``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import FaultApplied, HostDown, Seen, received, sent
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    NO_LEADER,
    PREFERRED_ELECTION,
    AlterIsr,
    AlterIsrReply,
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    OffsetForLeaderEpochReply,
)
from kemu.protocol.messages.data import (
    FETCH_NAMES_LEADERS_SINCE,
    OUTDATED,
    PRODUCE_NAMES_LEADERS_SINCE,
    FetchReply,
    ListOffsetsReply,
    ProduceReply,
)
from kemu.protocol.names import STORE, ActorName, TopicPartition, broker_host, host_of
from kemu.protocol.nodes import BROKER_IDS, DELETE_TOPICS
from kemu.protocol.notes.groups import AnswerInjected
from kemu.protocol.notes.replication import MetadataCached, NodeWritten

KNOWN_US = 10_000_000
"""Time after which a controller must know a change, in us."""
NONE = ErrorCode.NONE


class Question(NamedTuple):
    """A request to a controller, and the time of arrival."""

    request: Any
    at_us: int


Untrue = Iterator[tuple[str, str]]
"""(topic, partition or host of a wrong answer, description of the error)."""
DATA: Mapping[type, Callable[[Any], Iterable[tuple[str, int, ErrorCode]]]] = {
    FetchReply: lambda reply: [(row.topic, row.partition, row.error) for row in reply.partitions if row.error],
    ProduceReply: lambda reply: [
        (row.topic, row.partition, row.error) for row in reply.batches if row.error and len(reply.batches) == 1
    ],
    ListOffsetsReply: lambda reply: [(row.topic, row.partition, row.error) for row in reply.answers if row.error],
    OffsetForLeaderEpochReply: lambda reply: [
        (row.topic, row.partition, row.error_code) for row in reply.answers if row.error_code
    ],
}
"""Type of a reply -> function that returns the rows with errors. With several batches in a Produce, a batch may have
been refused long before the answer."""


NAMES_LEADERS_SINCE = {FetchReply: FETCH_NAMES_LEADERS_SINCE, ProduceReply: PRODUCE_NAMES_LEADERS_SINCE}
"""Type of a reply -> the first version whose errors name leaders."""


class Answers(Checker):
    """Judges the error codes in answers of brokers and controllers.

    Args:
        settings: the settings in force; without settings, or without replication, no answer is judged.
    """

    name = "answers"
    kinds = ("untrue",)

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._questions: dict[tuple[ActorName, int, int], Question] = {}
        """(controller, connection, request id) -> the request."""
        self._cached: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """Broker -> (leader, leader epoch) of the partitions in its metadata."""
        self._changed_us: dict[TopicPartition | str, int] = {}
        """Topic, partition or broker's host -> time of the last change in the store of the assignment, state or
        registration."""
        self._leaders: dict[TopicPartition, dict[tuple[int, int], None]] = {}
        """(leader, leader epoch) of each partition, now or earlier."""
        self._versions: dict[TopicPartition, int] = {}
        """Version of each partition's state node."""
        self._to_be_deleted: dict[str, None] = {}
        """Topics with a deletion request."""
        self._registrations: dict[str, int] = {}
        """Broker -> zxid of the broker's registration."""
        self._denied: list[tuple[Seen, TopicPartition, tuple[int, bool]]] = []
        """Partitions for which a broker answered NOT_LEADER_OR_FOLLOWER, and the broker's role at that time."""
        self._hit_disks = False
        self._injected = -1
        """The last step with an injected answer."""
        if settings is None or not settings.replicated:
            return
        self.on = {
            MetadataCached: self._caches,
            NodeWritten: self._written,
            FaultApplied: self._applied,
            AnswerInjected: self._injects,
            HostDown: self._down,
            **{sent(reply): self._data_as(reply, rows) for reply, rows in DATA.items()},
        }
        judged: Mapping[type, tuple[type, Callable[[Seen, Question, Any], Untrue]]] = {
            AlterIsr: (AlterIsrReply, self._altered),
            CreateTopics: (CreateTopicsReply, self._created),
            CreatePartitions: (CreatePartitionsReply, self._grown),
            DeleteTopics: (DeleteTopicsReply, self._deleted),
            ElectLeaders: (ElectLeadersReply, self._elected),
            AlterPartitionReassignments: (AlterPartitionReassignmentsReply, self._reassigned),
        }
        for request, (reply, untrue) in judged.items():
            self.on[received(request)] = self._asked
            self.on[sent(reply)] = self._answered_as(untrue)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _data_as(
        self, reply: type, rows: Callable[[Any], Iterable[tuple[str, int, ErrorCode]]]
    ) -> Callable[[Seen, Send], None]:
        named_since = NAMES_LEADERS_SINCE.get(reply)

        def answers(seen: Seen, fact: Send) -> None:
            for topic, partition, error in rows(fact[4]):
                if seen.actor in self._cached and seen.seq != self._injected:
                    self._judge(seen, (topic, partition), error)
            if named_since is not None and seen.seq != self._injected:
                is_of_client = host_of(fact.to) not in self._registrations
                self._judge_leaders(seen, fact[4], names=fact.version >= named_since and is_of_client)

        return answers

    def _judge_leaders(self, seen: Seen, reply: FetchReply | ProduceReply, *, names: bool) -> None:
        """Judge the leaders in a reply. ``names``: whether errors must name known leaders."""
        rows = reply.partitions if isinstance(reply, FetchReply) else reply.batches
        outdated = {(row.topic, row.partition): row.error for row in rows if row.error in OUTDATED}
        named = {(new.topic, new.partition) for new in reply.new_leaders}
        for at, error in outdated.items():
            if names and at not in named and self._knows_leader(seen.actor, at):
                self._say(seen, f"{at[0]}-{at[1]}", f"{error.name} without the leader, but it knows the leader")
        for new in reply.new_leaders:
            at, name = (new.topic, new.partition), f"{new.topic}-{new.partition}"
            if at not in outdated:
                self._say(seen, name, "a new leader without an error of outdated metadata")
            elif (new.leader_id, new.leader_epoch) not in self._leaders.get(at, ()):
                leader = f"{broker_host(new.leader_id)} as leader in epoch {new.leader_epoch}"
                self._say(seen, name, f"{leader}, but the store never had this leader")

    def _knows_leader(self, broker: str, at: TopicPartition) -> bool:
        """Whether the store's leader is in the broker's metadata, and in its replica if it has one."""
        state = self.panel.states.get(at)
        if state is None or state.leader == NO_LEADER:
            return False
        known = self._cached.get(broker, {}).get(at)
        role = self.panel.roles.get((broker, at))
        replicas = self.panel.assigned[at].replicas if at in self.panel.assigned else ()
        has_replica = any(broker_host(replica) == broker for replica in replicas)
        in_replica = not has_replica if role is None else role[0] == state.leader_epoch
        return in_replica and known == (state.leader, state.leader_epoch)

    def _judge(self, seen: Seen, at: TopicPartition, error: ErrorCode) -> None:
        broker, name = seen.actor, f"{at[0]}-{at[1]}"
        self._judge_denials(seen)
        leads = self.panel.roles.get((broker, at), (-1, False))[1]
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and at in self._cached[broker]:
            self._say(seen, name, f"{error.name}, but its metadata has the partition")
        elif self._hit_disks:
            return  # the partition may be offline
        elif error is ErrorCode.NOT_LEADER_OR_FOLLOWER and leads:
            self._denied.append((seen, at, self.panel.roles[broker, at]))
        elif error is ErrorCode.KAFKA_STORAGE_ERROR:
            self._say(seen, name, f"{error.name}, but no fault hit a disk")

    def _judge_denials(self, seen: Seen) -> None:
        """Judge denials of the last step. A broker that stops leading first answers, and reports the end of its
        leadership later in the same step.
        """
        if self._denied and self._denied[0][0].seq != seen.seq:
            for before, at, role in self._denied:
                if self.panel.roles.get((before.actor, at)) == role:
                    self._say(before, f"{at[0]}-{at[1]}", "NOT_LEADER_OR_FOLLOWER, but it leads the partition")
            self._denied = []

    def _caches(self, seen: Seen, fact: MetadataCached) -> None:
        self._judge_denials(seen)
        cache = self._cached.setdefault(seen.actor, {})
        for topic in fact.topics:
            for row in topic.partitions:
                cache[topic.topic, row.partition] = (row.leader, row.leader_epoch)
        for at in fact.gone:
            cache.pop(at, None)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        self._hit_disks = self._hit_disks or "log" in fact.kind or "disk" in fact.kind

    def _injects(self, seen: Seen, fact: AnswerInjected) -> None:
        self._injected = seen.seq

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._cached.pop(fact.host, None)
        self._questions = {key: each for key, each in self._questions.items() if host_of(key[0]) != fact.host}

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, topic = self.panel.written, self.panel.written_topic
        if at is not None:
            self._changed_us[at] = seen.at_us
            self._versions[at] = fact.version
            if (state := self.panel.states.get(at)) is not None:
                self._leaders.setdefault(at, {})[state.leader, state.leader_epoch] = None
        elif topic:
            self._changed_us[topic] = seen.at_us
            if fact.what == "deleted":
                self._to_be_deleted.pop(topic, None)
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            self._to_be_deleted[fact.path.rpartition("/")[2]] = None
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            host = broker_host(int(fact.path.rpartition("/")[2]))
            self._changed_us[host] = seen.at_us
            self._registrations[host] = -1 if fact.what == "deleted" else fact.zxid

    def _knows(self, seen: Seen, question: Question, *about: TopicPartition | str) -> bool:
        """Whether the controller must have known the present state of these entities when the request arrived."""
        since_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(seen.actor)))
        changed_us = [self._changed_us.get(each, 0) for each in about]
        return since_us is not None and question.at_us - max([since_us, *changed_us]) > KNOWN_US

    def _is_as_asked(self, question: Question, *about: TopicPartition | str) -> bool:
        """Whether these entities have not changed since the request."""
        return all(self._changed_us.get(each, 0) <= question.at_us for each in about)

    def _partitions(self, topic: str) -> int:
        return sum(at[0] == topic for at in self.panel.assigned)

    # --- controllers -------------------------------------------------------------------------------------------

    def _asked(self, seen: Seen, fact: Received) -> None:
        self._questions[seen.actor, fact.connection, fact.request_id] = Question(fact.message, seen.at_us)

    def _answered_as(self, untrue: Callable[[Seen, Question, Any], Untrue]) -> Callable[[Seen, Send], None]:
        def answers(seen: Seen, fact: Send) -> None:
            question = self._questions.pop((seen.actor, fact.connection, fact.request_id), None)
            if question is not None and seen.seq != self._injected:
                for about, text in untrue(seen, question, fact.message):
                    self._say(seen, about, text)

        return answers

    def _altered(self, seen: Seen, question: Question, reply: AlterIsrReply) -> Untrue:
        request: AlterIsr = question.request
        host = broker_host(request.broker_id)
        stale = reply.error_code is ErrorCode.STALE_BROKER_EPOCH
        if stale and request.broker_epoch == self._registrations.get(host) and self._knows(seen, question, host):
            yield host, f"{reply.error_code.name}, but the epoch is that of its registration"
        if reply.error_code is not NONE:
            return
        rows = {(row.topic_name, row.partition_index): row for row in reply.partitions}
        for asked in request.partitions:
            at = (asked.topic_name, asked.partition_index)
            row, state, name = rows.get(at), self.panel.states.get(at), f"{at[0]}-{at[1]}"
            if row is None:
                yield name, "no row for a partition of the request"
            elif row.error_code is NONE and (row.isr, row.leader_epoch) != (asked.new_isr, asked.leader_epoch):
                yield name, f"the ISR {row.isr} in epoch {row.leader_epoch}, but {asked.new_isr} was requested"
            elif row.error_code and (row.leader_id, row.isr) != (NO_LEADER, ()):
                yield name, f"{row.error_code.name} together with an ISR"
            elif state is None or not self._knows(seen, question, at):
                continue
            elif row.error_code is ErrorCode.FENCED_LEADER_EPOCH and asked.leader_epoch >= state.leader_epoch:
                yield name, f"{row.error_code.name} in epoch {asked.leader_epoch}; the store has {state.leader_epoch}"
            elif row.error_code is ErrorCode.INVALID_UPDATE_VERSION and asked.current_isr_version == self._versions[at]:
                yield name, f"{row.error_code.name}, but the version is that of the store"

    def _created(self, seen: Seen, question: Question, reply: CreateTopicsReply) -> Untrue:
        for row in reply.topics:
            found = self._partitions(row.name) > 0
            if row.error_code is NONE and question.request.validate_only:
                if found and self._knows(seen, question, row.name):
                    yield row.name, "NONE for a topic to be validated, but the topic exists"
            elif row.error_code is NONE and not found and self._is_as_asked(question, row.name):
                yield row.name, "NONE, but there is no such topic"
            existed = row.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
            if existed and not found and self._knows(seen, question, row.name):
                yield row.name, f"{row.error_code.name}, but there is no such topic"

    def _grown(self, seen: Seen, question: Question, reply: CreatePartitionsReply) -> Untrue:
        wanted = {topic.name: topic.count for topic in question.request.topics}
        for row in reply.topics:
            found, count = self._partitions(row.name), wanted.get(row.name, 0)
            if row.error_code is NONE and 0 < found < count:
                yield row.name, f"NONE, but there are {found} partitions instead of {count}"
            elif row.error_code is ErrorCode.INVALID_PARTITIONS and 0 < found < count:
                yield row.name, f"{row.error_code.name} for {count} partitions, but there are {found}"

    def _deleted(self, seen: Seen, question: Question, reply: DeleteTopicsReply) -> Untrue:
        for row in reply.topics:
            found = self._partitions(row.name) > 0
            if row.error_code is NONE and found and row.name not in self._to_be_deleted:
                yield row.name, "NONE, but the topic is not being deleted"
            is_unknown = row.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_there = found and row.name not in self._to_be_deleted
            if is_unknown and is_there and self._knows(seen, question, row.name):
                yield row.name, f"{row.error_code.name}, but the topic exists"

    def _elected(self, seen: Seen, question: Question, reply: ElectLeadersReply) -> Untrue:
        prefers = question.request.election_type == PREFERRED_ELECTION
        errors = {(row.topic_name, row.partition_index): row.error_code for row in reply.replica_election_results}
        if question.request.topic_partitions is None:
            errors = {**dict.fromkeys(self.panel.states, ErrorCode.ELECTION_NOT_NEEDED), **errors}
        for at, error in errors.items():
            name = f"{at[0]}-{at[1]}"
            state, found = self.panel.states.get(at), self.panel.assigned.get(at)
            if state is None or found is None:
                continue
            right = state.leader == found.replicas[0] if prefers else state.leader in self.panel.registered
            was_known = self._knows(seen, question, at, at[0], broker_host(state.leader))
            if error is NONE and not right and self._is_as_asked(question, at, at[0]):
                yield name, f"NONE, but {state.leader} leads; the replicas are {found.replicas}"
            elif error is ErrorCode.ELECTION_NOT_NEEDED and not right and was_known:
                yield name, f"{error.name}, but {state.leader} leads; the replicas are {found.replicas}"

    def _reassigned(self, seen: Seen, question: Question, reply: AlterPartitionReassignmentsReply) -> Untrue:
        for row in reply.responses:
            at, name = (row.topic_name, row.partition_index), f"{row.topic_name}-{row.partition_index}"
            found = self.panel.assigned.get(at)
            if row.error_code is NONE and found is None and self._is_as_asked(question, at[0]):
                yield name, "NONE, but there is no such partition"
            stays, moves = row.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, found and found.is_being_reassigned
            if stays and moves and self._knows(seen, question, at[0]):
                yield name, f"{row.error_code.name}, but the partition is being reassigned"

    def _say(self, seen: Seen, about: str, text: str) -> None:
        self.violation(seen, "untrue", (about, seen.actor), f"{seen.actor} answered for {about}: {text}")
