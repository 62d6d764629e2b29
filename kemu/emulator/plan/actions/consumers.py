"""Actions of an application on its consumer."""

# mypy: no-implicit-reexport

from typing import Annotated, Protocol

from kemu.emulator.plan.action import NEVER, Bounds, MemberHost, OneOf, TopicName, action, for_words, nothing_more
from kemu.emulator.plan.known import Known, role_of
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.commands import (
    EnforceRebalance,
    FailChild,
    PausePartitions,
    RaiseInListener,
    ResumePartitions,
    Seek,
    StopPolling,
    Subscribe,
    Unsubscribe,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.topic_pattern import wrong_pattern


def _is_instance(host: str, known: Known) -> bool:
    """Whether a host, given by name or role, is an instance of Kafka Streams."""
    role = role_of(host)
    groups = [role[1]] if role else [group for member, group in known.in_groups if member == host]
    return any(group in known.streams for group in groups)


def _no_instance(host: str, table: Table, known: Known) -> None:
    """Refuse a Streams instance, whose application has no access to the consumers of its threads."""
    if _is_instance(host, known):
        table.problem("host", f"{host} is an instance of Kafka Streams: its threads use their consumers by themselves")


class _OfConsumers(Protocol):
    host: str


def _consumers_only(self: _OfConsumers, table: Table, known: Known) -> None:
    """The ``check`` of actions that need a consumer outside of Streams, and nothing else."""
    _no_instance(self.host, table, known)


def _tell(stage: Stage, name: str, command: object) -> Outcome:
    host = stage.host(name)
    if isinstance(host, str):
        return host
    return None if stage.world.tell(host.name, command) else f"{host.name} does not run"


@action("subscribe", "a member subscribes to other topics", drawn=NEVER, workload=True)
class ChangeSubscription:
    """Change a member's subscription to these topics until its process ends. The member rejoins with the new
    subscription.

    ``pattern``: instead of ``topics``, all present and later topics whose names match this expression.
    ``subscription_pattern``: the same, but brokers match the expression, for members with ``group.protocol`` consumer.
    The group starts a rebalance. Other members keep their subscriptions, because members of a group may subscribe to
    different topics.
    """

    host: MemberHost
    topics: tuple[str, ...] = ()
    pattern: str = ""
    subscription_pattern: str = ""

    def words(self) -> str:
        if self.subscription_pattern:
            return f"{self.host} subscribes to all that brokers match to {self.subscription_pattern}"
        return f"{self.host} subscribes to {', '.join(self.topics) or f'all that matches {self.pattern}'}"

    def check(self, table: Table, known: Known) -> None:
        _no_instance(self.host, table, known)
        given = [name for name in ("topics", "pattern", "subscription_pattern") if getattr(self, name)]
        for other in given[1:]:
            table.problem(other, f'and "{given[0]}" exclude each other: give one of them')
        if self.pattern and (wrong := wrong_pattern(self.pattern)):
            table.problem("pattern", wrong)
        if self.subscription_pattern:
            if wrong := wrong_pattern(self.subscription_pattern, of_broker=True):
                table.problem("subscription_pattern", wrong)
            if self.host in known.classic_members:
                text = f'needs group.protocol = consumer (KIP-848), which {self.host} lacks; it can match a "pattern"'
                table.problem("subscription_pattern", text)
        elif self.pattern:
            pass
        elif not table.has("topics"):
            table.problem("topics", 'is missing; it or "pattern" must say what; to none is do = "unsubscribe"')
        elif not self.topics:
            table.problem("topics", 'must name at least one; to subscribe to none write do = "unsubscribe"')
        for topic in self.topics:
            table.known("topics", topic, [name for name, _ in known.topics], "topic")

    def apply(self, stage: Stage) -> Outcome:
        return _tell(
            stage, self.host, Subscribe(topics=self.topics, pattern=self.pattern, regex=self.subscription_pattern)
        )


@action("unsubscribe", "a member unsubscribes and leaves its group", drawn=NEVER, workload=True)
class Unsubscription:
    """Call ``consumer.unsubscribe()``: the member revokes its partitions and leaves its group. The member's process
    keeps running.
    """

    host: MemberHost

    def words(self) -> str:
        return f"{self.host} unsubscribes"

    check = _consumers_only

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, Unsubscribe())


@action("stop-polling", "a member's application does not poll for some time", drawn=NEVER)
class PollingStop:
    """Stop a member's calls of poll() for this time while its heartbeats continue, as during slow work or a deadlock.

    The stop begins with the member's next poll. After ``max.poll.interval.ms`` the member leaves its group, and rejoins
    with its next poll. During a shorter stop a rebalance waits for the member, at most for the member's rebalance
    timeout.
    """

    host: MemberHost
    for_us: int

    def words(self) -> str:
        return f"{self.host} does not poll for {duration_text(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        outcome = _tell(stage, self.host, StopPolling(for_us=self.for_us))
        if outcome is None:
            stage.lasts(self.for_us, lambda: None)
        return outcome


@action("fail-listener", "the next call of a member's rebalance listener raises", drawn=NEVER)
class ListenerFailure:
    """Make the next call of this callback of a member's rebalance listener raise an exception."""

    host: MemberHost
    callback: Annotated[str, OneOf("onPartitionsRevoked", "onPartitionsAssigned", "onPartitionsLost")]

    def words(self) -> str:
        return f"the next {self.callback} of {self.host} raises"

    check = _consumers_only

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, RaiseInListener(callback=self.callback, why="a fault of the plan"))


def _partition_of(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _check_partitions(table: Table, known: Known, partitions: tuple[str, ...]) -> None:
    if not partitions:
        table.problem("partitions", 'must name at least one, such as "t-0"')
    counts = dict(known.topics)
    for name in partitions:
        topic, _, number = name.rpartition("-")
        if topic not in counts or not number.isdecimal() or len(number) > 9 or int(number) >= counts[topic]:
            table.problem("partitions", f'"{name}" is no partition; write TOPIC-NUMBER, such as "t-0"')


@action("pause-partitions", "a member fetches nothing from some partitions for some time", drawn=NEVER, workload=True)
class PartitionsPause:
    """Call ``consumer.pause()`` for the partitions among these ("t-0") that the member owns, and later ``resume()``.

    The member continues to poll and stays in its group. A partition that the member loses and receives again is no
    longer paused.
    """

    host: MemberHost
    partitions: tuple[str, ...]
    for_us: int = 0

    def words(self) -> str:
        return f"{self.host} pauses {', '.join(self.partitions)}{for_words(self.for_us)}"

    def check(self, table: Table, known: Known) -> None:
        _no_instance(self.host, table, known)
        _check_partitions(table, known, self.partitions)

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        partitions = tuple(_partition_of(name) for name in self.partitions)
        if not stage.world.tell(host.name, PausePartitions(partitions=partitions)):
            return f"{host.name} does not run"
        stage.lasts(self.for_us, lambda: stage.world.tell(host.name, ResumePartitions(partitions=partitions)))
        return None


@action("resume-partitions", "a member resumes paused partitions", drawn=NEVER, workload=True)
class PartitionsResumption:
    """Call ``consumer.resume()`` for the partitions among these ("t-0") that the member owns."""

    host: MemberHost
    partitions: tuple[str, ...]

    def words(self) -> str:
        return f"{self.host} resumes {', '.join(self.partitions)}"

    def check(self, table: Table, known: Known) -> None:
        _no_instance(self.host, table, known)
        _check_partitions(table, known, self.partitions)

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, ResumePartitions(partitions=tuple(map(_partition_of, self.partitions))))


@action("seek", "a member seeks another offset of a partition", drawn=NEVER, workload=True)
class PositionChange:
    """Call ``consumer.seek()``: the member continues at this offset, if the member owns the partition.

    Records between the two offsets are reprocessed or skipped. An offset outside the log is reset
    (``auto.offset.reset``).
    """

    host: MemberHost
    topic: TopicName
    partition: Annotated[int, Bounds(0)]
    offset: Annotated[int, Bounds(0, 1 << 62)]

    def words(self) -> str:
        return f"{self.host} seeks {self.topic}-{self.partition} to {self.offset}"

    def check(self, table: Table, known: Known) -> None:
        _no_instance(self.host, table, known)
        count = dict(known.topics).get(self.topic, 0)
        if count <= self.partition:
            table.problem("partition", f"must be less than {self.topic} has ({count})")

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, Seek(topic=self.topic, partition=self.partition, offset=self.offset))


@action("enforce-rebalance", "a member rejoins its group without a cause", drawn=NEVER, workload=True)
class RebalanceRequest:
    """Call ``consumer.enforceRebalance()`` (KIP-568): the member rejoins with its next poll."""

    host: MemberHost

    def words(self) -> str:
        return f"{self.host} enforces a rebalance"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, EnforceRebalance())


@action("fail-child-consumer", "a member's second consumer dies for some time (KIP-333)", drawn=NEVER)
class ChildFailure:
    """Stop the second consumer of a member (``enable.parallel.rebalance``), and restart the second consumer after this
    time.

    The second consumer resumes from its last commit. The action has no effect on a member without a second consumer.
    """

    host: MemberHost
    for_us: int

    def words(self) -> str:
        return f"the second consumer of {self.host} dies for {duration_text(self.for_us)}"

    check = _consumers_only

    def apply(self, stage: Stage) -> Outcome:
        return _tell(stage, self.host, FailChild(for_us=self.for_us))
