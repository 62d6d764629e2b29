"""Creation, growth and deletion of topics, and requested leader elections: by nodes in the store and by admins.

Admins' requests are written into the store first, as in Kafka. The watch on the written nodes starts the work, and the
answer waits until the result is in the metadata (``admin_waits``).

Source: Kafka 2.8 ``KafkaController``, ``ZkAdminManager``.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from kemu.actors.controller.admin_waits import DelayedReply, Leaders, all_led, led_by, topic_deleted
from kemu.actors.controller.dispatch import ANYTHING, ControllerTimer, Dispatch, Job, Moment
from kemu.actors.controller.elections import Strategy, preferred_leader
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.transactions import (
    Work,
    ask,
    ask_one,
    children,
    create,
    delete,
    exists,
    expect,
    get,
    set_data,
)
from kemu.actors.machine import US_PER_MS, US_PER_S
from kemu.protocol.draws import DrawName
from kemu.protocol.dynamic_configs import WITHOUT_EFFECT, ConfigResource, bad_setting
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    PREFERRED_ELECTION,
    UNCLEAN_ELECTION,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    ElectLeaders,
    ElectLeadersReply,
    MorePartitions,
    NewTopic,
    PartitionOutcome,
    TopicOutcome,
)
from kemu.protocol.messages.store import OpResult, StoreCode, WatchEventKind
from kemu.protocol.names import TopicPartition, is_legal_name
from kemu.protocol.nodes import (
    DELETE_TOPICS,
    TOPICS,
    ReplicaAssignment,
    delete_path,
    read_partitions,
    read_topic,
    read_topic_id,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.nodes import PREFERRED_ELECTION as PREFERRED_ELECTION_PATH
from kemu.protocol.notes.replication import PartitionsAdded, TopicCreated, UncleanElectionAsked
from kemu.protocol.placement import CannotPlace, place

REBALANCE = (ControllerTimer.REBALANCE,)

FIRST_TO_SAY_DISABLED = 3
"""The first version of DeleteTopics with the error TOPIC_DELETION_DISABLED. Source: Kafka 2.8 ``KafkaApis``."""

MOST_PARTITIONS = 10_000
"""Largest number of partitions that a request creates. Source: ``ReplicationControlManager`` (3.9), the only controller
of Kafka with a limit.
"""

Refusal = tuple[ErrorCode, str]


class TopicChanges:
    """The controller's part for created, growing and deleted topics."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._ids = 0
        """Number of drawn topic ids."""

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to nodes written by admins and tools, to admins' requests, and to the leader rebalance."""
        to.on_watch(TOPICS, Job("topics", self.topics_changed))
        to.on_watch(topic_path(ANYTHING), Job("partitions", self.partitions_changed), WatchEventKind.NODE_DATA_CHANGED)
        to.on_watch(DELETE_TOPICS, Job("deletions", self.deletions_changed))
        to.on_watch(PREFERRED_ELECTION_PATH, Job("preferred-election", self.preferred_election_asked))
        to.on_request(CreateTopics, Job("admin", self.create_topics))
        to.on_request(CreatePartitions, Job("admin", self.create_partitions))
        to.on_request(DeleteTopics, Job("admin", self.delete_topics))
        to.on_request(ElectLeaders, Job("admin", self.elect_leaders))
        to.on_timer(ControllerTimer.REBALANCE, Job("rebalance", self._rebalance_due))
        to.on_moment(Moment.TOOK_OVER, self.preferred_election_asked)
        to.on_moment(Moment.TOOK_OVER, self._first_rebalance)

    # --- nodes in the store --------------------------------------------------------------------------------------

    def topics_changed(self) -> Work[None]:
        """Create new topics, and react to removed nodes of topics."""
        context = self._machine.context
        listed = yield from ask_one(children(TOPICS, watch=True))
        new = [topic for topic in listed.children if topic not in context.topics]
        for topic in [topic for topic in context.topics if topic not in listed.children]:
            context.drop_topic(topic)
        found = yield from self.read_topics(new)
        for topic, result in found.items():
            assignments = read_topic(result.data)
            context.topics.setdefault(topic, {})
            context.topic_ids[topic] = read_topic_id(result.data)
            for number, assignment in assignments.items():
                context.assign((topic, number), assignment)
            self._machine.note(TopicCreated(topic=topic, partitions=len(assignments), incarnation=result.czxid))
        yield from self._create([at for topic in found for at in context.partitions_of(topic)])

    def read_topics(self, topics: Iterable[str]) -> Work[dict[str, OpResult]]:
        """The nodes of these topics, with a watch on each node; missing nodes are omitted."""
        names = list(topics)
        results = yield from ask([get(topic_path(topic), watch=True) for topic in names])
        return {topic: result for topic, result in zip(names, results, strict=True) if result.code is StoreCode.OK}

    def partitions_changed(self, topic: str) -> Work[None]:
        """Add the new partitions in a topic's node."""
        machine, context = self._machine, self._machine.context
        found = yield from self.read_topics((topic,))
        if topic not in found or topic not in context.topics:
            return
        added = {n: each for n, each in read_topic(found[topic].data).items() if n not in context.topics[topic]}
        if not added:
            return
        if context.is_queued_for_deletion(topic) and machine.rules.deleted_topics_take_no_partitions:
            restored = topic_data(context.topics[topic], context.topic_ids[topic])
            yield from machine.store.write([set_data(topic_path(topic), restored)])
            return
        for number, assignment in added.items():
            context.assign((topic, number), assignment)
        machine.note(PartitionsAdded(topic=topic, partitions=len(context.topics[topic])))
        yield from self._create([(topic, number) for number in added])

    def _create(self, partitions: list[TopicPartition]) -> Work[None]:
        """Bring new partitions and their replicas online."""
        context = self._machine.context
        replicas = [(*at, broker) for at in partitions for broker in context.replicas(at)]
        yield from self._machine.partitions.move(partitions, PartitionPhase.NEW)
        yield from self._machine.replicas.move(replicas, ReplicaPhase.NEW)
        yield from self._machine.partitions.move(partitions, PartitionPhase.ONLINE, Strategy.OFFLINE)
        yield from self._machine.replicas.move(replicas, ReplicaPhase.ONLINE)

    def deletions_changed(self) -> Work[None]:
        """React to requests for topic deletions in the store."""
        machine, context = self._machine, self._machine.context
        listed = yield from ask_one(children(DELETE_TOPICS, watch=True))
        unknown = [topic for topic in listed.children if topic not in context.topics]
        yield from machine.store.write([delete(delete_path(topic)) for topic in unknown])
        topics = [topic for topic in listed.children if topic in context.topics]
        if not machine.config.delete_topic_enable:
            yield from machine.store.write([delete(delete_path(topic)) for topic in topics])
            return
        yield from self._machine.deletion.enqueue(topics)

    # --- preferred leaders -------------------------------------------------------------------------------------

    def preferred_election_asked(self) -> Work[None]:
        """Elect the preferred leaders of the partitions that a tool listed in the store."""
        machine, context = self._machine, self._machine.context
        there = yield from ask_one(exists(PREFERRED_ELECTION_PATH, watch=True))
        if there.code is not StoreCode.OK:
            return
        found = yield from ask_one(get(PREFERRED_ELECTION_PATH))
        if found.code is not StoreCode.OK:
            return
        listed = [at for at in read_partitions(found.data) if context.assignment(at) is not None]
        electable = [at for at in listed if not context.is_queued_for_deletion(at[0]) and self._is_led_by_another(at)]
        yield from self._machine.partitions.move(electable, PartitionPhase.ONLINE, Strategy.PREFERRED)
        yield from machine.store.write([delete(PREFERRED_ELECTION_PATH)])

    def _first_rebalance(self) -> Work[None]:
        config = self._machine.config
        if config.auto_leader_rebalance_enable:
            self._machine.start_timer(REBALANCE, config.emulated_first_rebalance_ms * US_PER_MS)
        yield from ()

    def hours_pass(self) -> None:
        """Move the next check for non-preferred leaders to a random point of its interval."""
        config = self._machine.config
        if self._machine.is_active and config.auto_leader_rebalance_enable:
            every_us = config.leader_imbalance_check_interval_seconds * US_PER_S
            us = self._machine.draws.us(DrawName.IMBALANCE_CHECK_PHASE, every_us, every_us)
            self._machine.start_timer(REBALANCE, us)

    def _rebalance_due(self) -> Work[None]:
        yield from self.rebalance_leaders()
        interval_us = self._machine.config.leader_imbalance_check_interval_seconds * US_PER_S
        self._machine.start_timer(REBALANCE, interval_us)

    def rebalance_leaders(self) -> Work[None]:
        """Return leadership to preferred replicas for each broker that leads too few of its preferred partitions."""
        context = self._machine.context
        may_balance = self._machine.rules.balances_while_reassigning or not context.reassigning
        by_preferred: dict[int, list[TopicPartition]] = {}
        for at in context.partitions():
            replicas = context.replicas(at)
            if replicas and not context.is_queued_for_deletion(at[0]):
                by_preferred.setdefault(replicas[0], []).append(at)
        limit = self._machine.config.leader_imbalance_per_broker_percentage
        for broker, assigned in by_preferred.items():
            elsewhere = [at for at in assigned if self._led_by_another(at, broker)]
            if len(elsewhere) * 100 > limit * len(assigned) and may_balance:
                candidates = [at for at in elsewhere if self._preferred_can_lead(at)]
                yield from self._machine.partitions.move(candidates, PartitionPhase.ONLINE, Strategy.PREFERRED)

    def imbalance(self) -> int:
        """The number of partitions not led by their preferred replica. Source: ``preferredReplicaImbalanceCount``."""
        context = self._machine.context
        return sum(
            self._led_by_another(at, context.replicas(at)[0])
            for at in context.partitions()
            if context.replicas(at) and not context.is_queued_for_deletion(at[0])
        )

    def _led_by_another(self, at: TopicPartition, broker: int) -> bool:
        known = self._machine.context.leadership.get(at)
        return known is not None and known.state.leader != broker

    def _is_led_by_another(self, at: TopicPartition) -> bool:
        """Whether the preferred replica is not known to be the partition's leader."""
        known = self._machine.context.leadership.get(at)
        return known is None or self._needs_election(at, known.state.leader, PREFERRED_ELECTION)

    def _preferred_can_lead(self, at: TopicPartition) -> bool:
        context = self._machine.context
        replicas = context.replicas(at)
        live = [broker for broker in replicas if context.is_replica_online(broker, at)]
        return preferred_leader(replicas, context.leadership[at].state.isr, live) is not None

    # --- admins ------------------------------------------------------------------------------------------------

    def create_topics(self, request: CreateTopics) -> Work[DelayedReply]:
        """Write the nodes of new topics, whose watches start the creation. The answer waits until partitions have
        leaders, unless the topics are only validated.
        """
        outcomes: dict[str, Refusal] = {}
        awaited: dict[Hashable, Callable[[Leaders], bool]] = {}
        counts = Counter(topic.name for topic in request.topics)
        for topic in request.topics:
            if counts[topic.name] > 1:
                outcomes[topic.name] = ErrorCode.INVALID_REQUEST, f"{topic.name} is asked for more than once"
                continue
            error, why, partitions = yield from self._create_topic(topic, awaited, only_validated=request.validate_only)
            outcomes[topic.name] = error, why
            if error is ErrorCode.NONE and not request.validate_only:
                awaited[topic.name] = all_led([(topic.name, number) for number in range(partitions)])
        return DelayedReply(awaited, request.timeout_ms, lambda late: CreateTopicsReply(topics=_rows(outcomes, late)))

    def _create_topic(
        self, topic: NewTopic, made_before: Iterable[Hashable], *, only_validated: bool
    ) -> Work[tuple[ErrorCode, str, int]]:
        """Write a topic's node, unless it is only validated; returns the error, or the number of its partitions.

        The node has an id in every release. In Kafka, the first controller of 2.8 adds an id to older nodes
        (``KafkaZkClient.setTopicIds``). Source: ``AdminZkClient.writeTopicPartitionAssignment`` (3.4).
        """
        error, why, assignments = self._planned(topic, made_before)
        if error is not ErrorCode.NONE or only_validated:
            return error, why, len(assignments)
        if topic.configs:
            settings = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
            yield from self._machine.configs.write(topic_config_path(topic.name), settings)
        self._ids += 1
        topic_id = self._machine.draws.identity(f"{topic.name}-{self._machine.context.epoch}-{self._ids}")
        data = topic_data(assignments, topic_id)
        (made,) = yield from self._machine.store.write([create(topic_path(topic.name), data)])
        if made.code is StoreCode.NODE_EXISTS:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {topic.name}", 0
        expect(made)
        return ErrorCode.NONE, "", len(assignments)

    def _planned(
        self, topic: NewTopic, made_before: Iterable[Hashable]
    ) -> tuple[ErrorCode, str, dict[int, ReplicaAssignment]]:
        """The placement of a new topic's partitions, or the error. Source: ``ZkAdminManager.createTopics``."""
        context, config = self._machine.context, self._machine.config
        if topic.name in context.topics:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {topic.name}", {}
        bad = _bad_configs(topic)
        if bad:
            return ErrorCode.INVALID_CONFIG, bad, {}
        rows = topic.assignments
        if rows and (topic.num_partitions != -1 or topic.replication_factor != -1):
            return ErrorCode.INVALID_REQUEST, "give either counts or assignments", {}
        count = len(rows) or (config.num_partitions if topic.num_partitions == -1 else topic.num_partitions)
        if count > MOST_PARTITIONS:
            return ErrorCode.POLICY_VIOLATION, f"{count} partitions; a topic has at most {MOST_PARTITIONS}", {}
        if not rows:
            if count < 1:
                return ErrorCode.INVALID_PARTITIONS, f"{count} partitions", {}
            factor = config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
            try:
                rows = self._place(count, factor, start=len(context.topics), first_partition=0)
            except CannotPlace as error:
                return ErrorCode.INVALID_REPLICATION_FACTOR, str(error), {}
        if not is_legal_name(topic.name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION, f"not a legal topic name: {topic.name!r}", {}
        others = (*context.topics, *map(str, made_before))
        like = next((other for other in others if _metric_name(other) == _metric_name(topic.name)), "")
        if like:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} and {like} differ in '.' and '_' only", {}
        bad = _bad_assignments(rows, len(rows[0]))
        if bad:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad, {}
        return ErrorCode.NONE, "", {number: ReplicaAssignment(replicas) for number, replicas in enumerate(rows)}

    def _place(
        self, count: int, factor: int, *, start: int, first_partition: int, after: int | None = None
    ) -> tuple[tuple[int, ...], ...]:
        """The placement of new partitions. ``after``: the first replica of partition 0 when a topic grows."""
        live = self._machine.context.live
        racks = {broker: each.rack for broker, each in live.items() if each.rack is not None}
        brokers = list(live)
        if after is not None:
            start = brokers.index(after) if after in brokers else 0
        return place(brokers, count, factor, racks=racks, start=start, shift=start, first_partition=first_partition)

    def create_partitions(self, request: CreatePartitions) -> Work[DelayedReply]:
        """Write more partitions into topics' nodes. The answer waits until all new partitions have leaders."""
        outcomes: dict[str, Refusal] = {}
        awaited: dict[Hashable, Callable[[Leaders], bool]] = {}
        counts = Counter(topic.name for topic in request.topics)
        for topic in request.topics:
            if counts[topic.name] > 1:
                outcomes[topic.name] = ErrorCode.INVALID_REQUEST, f"{topic.name} is asked for more than once"
                continue
            error, why, new = yield from self._grow(topic)
            outcomes[topic.name] = error, why
            if error is ErrorCode.NONE:
                awaited[topic.name] = all_led([(topic.name, number) for number in new])
        return DelayedReply(
            awaited, request.timeout_ms, lambda late: CreatePartitionsReply(topics=_rows(outcomes, late))
        )

    def _grow(self, topic: MorePartitions) -> Work[tuple[ErrorCode, str, tuple[int, ...]]]:
        """Add partitions to a topic's node; returns the error, or the new partition numbers.

        Source: ``ZkAdminManager.createPartitions``.
        """
        context = self._machine.context
        if context.is_queued_for_deletion(topic.name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is queued for deletion", ()
        stored = yield from ask_one(get(topic_path(topic.name)))
        known = read_topic(stored.data) if stored.code is StoreCode.OK else {}
        if not known:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {topic.name}", ()
        if any(assignment.is_being_reassigned for assignment in known.values()):
            return ErrorCode.REASSIGNMENT_IN_PROGRESS, f"{topic.name} is being reassigned", ()
        more = topic.count - len(known)
        if more < 1:
            return ErrorCode.INVALID_PARTITIONS, f"{topic.name} has {len(known)} partitions", ()
        factor = len(known[0].replicas)
        rows = topic.assignments
        if rows:
            dead = [broker for replicas in rows for broker in replicas if broker not in context.live]
            bad = f"brokers {dead} are not alive" if dead else _bad_assignments(rows, factor)
            bad = bad or ("" if len(rows) == more else f"{more} rows wanted")
            if bad:
                return ErrorCode.INVALID_REPLICA_ASSIGNMENT, bad, ()
        else:
            try:
                after = known[0].replicas[0]
                rows = self._place(more, factor, start=0, first_partition=len(known), after=after)
            except CannotPlace as error:
                return ErrorCode.INVALID_REPLICATION_FACTOR, str(error), ()
        new = {len(known) + index: ReplicaAssignment(replicas) for index, replicas in enumerate(rows)}
        grown = topic_data({**known, **new}, read_topic_id(stored.data))
        (written,) = yield from self._machine.store.write([set_data(topic_path(topic.name), grown)])
        expect(written)
        return ErrorCode.NONE, "", tuple(new)

    def delete_topics(self, request: DeleteTopics) -> Work[DelayedReply]:
        """Request the deletion of topics. The answer waits until the broker's metadata has no partition of the
        topics.

        A topic without metadata is unknown while its replicas are still deleted. Source:
        ``KafkaApis.handleDeleteTopicsRequest`` (3.4).
        """
        context = self._machine.context
        outcomes: dict[str, Refusal] = {}
        awaited: dict[Hashable, Callable[[Leaders], bool]] = {}
        for topic in dict.fromkeys(request.topic_names):
            if not self._machine.config.delete_topic_enable:
                knows_why = self._machine.request_version >= FIRST_TO_SAY_DISABLED
                error = ErrorCode.TOPIC_DELETION_DISABLED if knows_why else ErrorCode.INVALID_REQUEST
                outcomes[topic] = error, "delete.topic.enable is false"
            elif topic not in context.topics or (
                context.is_queued_for_deletion(topic) and not self._machine.has_told(topic)
            ):
                outcomes[topic] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {topic}"
            else:
                (made,) = yield from self._machine.store.write([create(delete_path(topic))])
                expect(made, StoreCode.NODE_EXISTS)
                outcomes[topic] = ErrorCode.NONE, ""
                awaited[topic] = topic_deleted(topic)
        return DelayedReply(awaited, request.timeout_ms, lambda late: DeleteTopicsReply(topics=_rows(outcomes, late)))

    def elect_leaders(self, request: ElectLeaders) -> Work[DelayedReply]:
        """Run preferred or unclean elections for an admin. The answer waits until the broker's metadata shows the
        leaders.
        """
        context = self._machine.context
        asked = request.topic_partitions
        outcomes: dict[TopicPartition, ErrorCode] = {}
        electable: list[TopicPartition] = []
        for at in context.partitions() if asked is None else dict.fromkeys(asked):
            known = context.leadership.get(at)
            if context.assignment(at) is None:
                outcomes[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif context.is_queued_for_deletion(at[0]):
                outcomes[at] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif known is None or self._needs_election(at, known.state.leader, request.election_type):
                electable.append(at)
            elif asked is not None:
                outcomes[at] = ErrorCode.ELECTION_NOT_NEEDED
        unclean = request.election_type == UNCLEAN_ELECTION
        for topic in dict.fromkeys(topic for topic, _ in electable) if unclean else ():
            numbers = tuple(number for name, number in electable if name == topic)
            self._machine.note(UncleanElectionAsked(topic=topic, partitions=numbers))
        strategy = Strategy.OFFLINE if unclean else Strategy.PREFERRED
        failed = yield from self._machine.partitions.move(
            electable, PartitionPhase.ONLINE, strategy, allow_unclean=unclean
        )
        refusal = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        outcomes.update((at, refusal if at in failed else ErrorCode.NONE) for at in electable)
        awaited: dict[Hashable, Callable[[Leaders], bool]] = {
            at: led_by(at, context.leadership[at].state.leader) for at in electable if at not in failed
        }
        return DelayedReply(awaited, request.timeout_ms, lambda late: _elections(outcomes, late))

    def _needs_election(self, at: TopicPartition, leader: int, election_type: int) -> bool:
        if election_type == PREFERRED_ELECTION:
            return leader != self._machine.context.replicas(at)[0]
        return leader not in self._machine.context.live


def _metric_name(topic: str) -> str:
    """The topic's name in metrics; two topics with equal names in metrics collide. Source: ``Topic.hasCollision``."""
    return topic.replace(".", "_")


def _bad_configs(topic: NewTopic) -> str:
    """The reason why the settings of a new topic are refused; "" for valid settings.

    Source: ``ZkAdminManager.createTopics`` (3.4) refuses null values; ``LogConfig.validate`` other values.
    """
    for entry in topic.configs:
        if entry.value is None:
            return f"{entry.name} has no value"
        if entry.name not in WITHOUT_EFFECT and (bad := bad_setting(ConfigResource.TOPIC, entry.name, entry.value)):
            return bad
    return ""


def _bad_assignments(rows: tuple[tuple[int, ...], ...], factor: int) -> str:
    """The error in an admin's replica assignments; "" for valid assignments. Live brokers are not checked here."""
    for replicas in rows:
        if not replicas or len(dict.fromkeys(replicas)) != len(replicas):
            return f"empty or repeated replicas: {replicas}"
        if len(replicas) != factor:
            return "partitions with different numbers of replicas"
    return ""


def _rows(outcomes: Mapping[str, Refusal], late: Collection[Hashable]) -> tuple[TopicOutcome, ...]:
    """One row per topic; REQUEST_TIMED_OUT for topics whose result was not in the metadata in time."""
    return tuple(
        TopicOutcome(
            name=name, error_code=ErrorCode.REQUEST_TIMED_OUT if name in late else error, error_message=why or None
        )
        for name, (error, why) in outcomes.items()
    )


def _elections(outcomes: Mapping[TopicPartition, ErrorCode], late: Collection[Hashable]) -> ElectLeadersReply:
    rows = tuple(
        PartitionOutcome(
            topic_name=at[0], partition_index=at[1], error_code=ErrorCode.REQUEST_TIMED_OUT if at in late else error
        )
        for at, error in outcomes.items()
    )
    return ElectLeadersReply(replica_election_results=rows)
