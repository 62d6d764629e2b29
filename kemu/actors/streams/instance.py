"""A Streams instance: threads that are members of a group, their shared state, and the machines for their I/O.

The parts of an instance ``s1`` with two threads are the consumers ``s1/t1`` and ``s1/t2``, their changelog readers
``s1/t1-restore``, and their producers ``s1/t1-producer``. As in a KafkaStreams process, one producer writes all
changelogs of its thread. With ``processing.guarantee = exactly_once``, the original form, each active task has a
separate producer, ``s1/t1-0_3-producer`` (KIP-447). A thread alternates between restoring and processing. Kafka from
3.7 on may restore in a separate thread.

Source: Kafka's ``KafkaStreams``, ``StreamThread``; KIP-429 (page version 99).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from kemu.actors.clients.producer import Producer
from kemu.actors.consumer.consumer import Consumer
from kemu.actors.hosting import HostingMachine
from kemu.actors.machine import US_PER_MS, Appended, Chance, Draws, Event, Loaded, TimerFired, Told
from kemu.actors.streams.tasks import StateDirectory, TaskRole
from kemu.actors.streams.thread import STREAMS_ASSIGNOR, ReaderLoop, StreamThread
from kemu.protocol.assign.base import (
    Assignment,
    Assignor,
    MemberAssignor,
    Memory,
    RebalanceProtocol,
    Subscriber,
    Topics,
)
from kemu.protocol.commands import (
    Close,
    EnforceRebalance,
    FlushRecords,
    GoOn,
    HoursPass,
    LeaveGradually,
    Start,
    StopPolling,
)
from kemu.protocol.config import ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.metadata_rules import METADATA_3_7, MetadataRules
from kemu.protocol.names import ActorName, MemberId, TopicPartition, part_on
from kemu.protocol.notes.groups import MemberFailed, PartitionsAssigned, RecordsAcknowledged, Rejoin
from kemu.protocol.notes.streams import InstanceLeaving, InstanceReleased, InstanceStarted, ThreadReplaced
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors
from kemu.protocol.streams import modes
from kemu.protocol.streams.modes import BALANCE, Layout, ThreadPlacement
from kemu.protocol.streams.registry import TaskAssignor
from kemu.protocol.streams.releases import TASK_RULES, TaskRules
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.streams.topology import Topology

CHECKPOINTS = "checkpoints"
"""The name of the log on disk with an instance's checkpoints; the last checkpoint of a task is valid."""
ALL = -1
LARGEST_INT = 2**31 - 1
"""The ``delivery.timeout.ms`` under exactly once. Source: ``StreamsConfig.PRODUCER_EOS_OVERRIDES``."""
ChanceOf: TypeAlias = Callable[[str], Chance]
"""The function that makes the random stream of a part."""


class InstanceTimer(StrEnum):
    """The instance's own timers."""

    COMMIT = "commit"
    """The next checkpoints of running tasks are due."""
    COMMIT_DUE = "commit-due"
    """A commit of a thread is due."""
    REBALANCE = "rebalance"
    """A thread must request a rebalance: warm-ups may have caught up, or a leaving instance must stop waiting."""


class StreamsProtocol:
    """The only assignor of a thread's consumer; it delegates to the thread."""

    name = STREAMS_ASSIGNOR
    version = 0

    def __init__(self, thread: StreamThread, protocols: tuple[RebalanceProtocol, ...]) -> None:
        self.protocols = protocols
        self._thread = thread

    def for_member(self) -> MemberAssignor:
        """The thread, which is the member's assignor."""
        return self._thread

    def user_data(self, memory: Memory | None) -> bytes | None:
        """Raise an error: only a thread knows its tasks."""
        raise AssertionError("a consumer asks the thread (for_member)")

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Raise an error: only a thread computes an assignment."""
        raise AssertionError("a consumer asks the thread (for_member)")


class Instance(HostingMachine):
    """A Streams instance and its parts.

    Args:
        name: the host, which is the actor's name.
        application: ``application.id``: the group, and the prefix of its internal topics.
        consumer: the configuration of the threads' consumers, without group and client ids.
        process_id: 16 bytes; equal for all processes that share one disk (KAFKA-10716).
        chances: makes the random stream of each consumer, reader and producer.
        custom: a task assignor instead of the KIP-429 page's learners.
        placement: the leader's rule for distributing an instance's tasks to its threads.
        metadata_rules: the leader epochs in metadata that the release's clients trust.
        uses_nonce, task_rules: the arguments of ``StreamThread``.
    """

    def __init__(
        self,
        name: ActorName,
        application: str,
        topology: Topology,
        config: StreamsConfig,
        *,
        consumer: ConsumerConfig,
        producer: ProducerConfig,
        process_id: bytes,
        bootstrap: tuple[ActorName, ...],
        chances: ChanceOf,
        draws: Draws,
        custom: TaskAssignor | None = None,
        layout: Layout = Layout.LEARNER,
        protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
        versions: SpokenVersions = LATEST,
        rules_of: RulesOf = by_assignors,
        metadata_rules: MetadataRules = METADATA_3_7,
        placement: ThreadPlacement = ThreadPlacement.KEEPING,
        uses_nonce: bool = True,
        task_rules: TaskRules = TASK_RULES,
    ) -> None:
        super().__init__(name)
        self.application = application
        self.topology = topology
        self.config = config
        self.directory = StateDirectory()
        self.leaving_since_us: int | None = None
        self._consumer = consumer
        self._producer = producer
        self._bootstrap = bootstrap
        self._chances = chances
        self._draws = draws
        self._protocols = protocols
        self._versions = versions
        self._rules_of = rules_of
        self._metadata_rules = metadata_rules
        self._layout = layout
        self._process_id = process_id
        self._outbox: list[tuple[str, object]] = []
        self._released = False
        self._closing = False
        self._producers: dict[str, list[str]] = {}
        """Thread -> the parts that write the thread's changelogs."""
        self._failed: list[str] = []
        """Threads whose consumer failed, and that are not removed yet."""
        self._flushing: list[str] = []
        """Threads that wait for the end of all sends to their changelogs, acknowledged or failed."""
        self._lives: dict[str, int] = {}
        """Part -> number of machines of the part so far."""

        def make(number: int) -> StreamThread:
            return StreamThread(
                self,
                number,
                application=application,
                topology=topology,
                config=config,
                layout=layout,
                process_id=process_id,
                directory=self.directory,
                process_us_per_record=consumer.emulated_process_us_per_record,
                custom=custom,
                placement=placement,
                uses_nonce=uses_nonce,
                task_rules=task_rules,
            )

        self._make = make
        self.threads = {f"t{number}": make(number) for number in range(1, config.num_stream_threads + 1)}

    # --- events ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the event to its part or to the instance; then execute the threads' commands until no
        command remains.
        """
        if not self.passed_on(event):
            self._own(event)
        self._run_outbox()
        while self.directory.freed:
            # Kafka's threads try again in each of their loops: ``TaskManager``, ``LockException``.
            self.directory.freed = False
            for thread in self.threads.values():
                thread.directory_free()
            self._run_outbox()

    def _run_outbox(self) -> None:
        while True:
            if self.config.producer_per_task:
                self._align_task_producers()
            if self._failed:
                self._thread_died(self._failed.pop(0))
            elif self._outbox:
                part, command = self._outbox.pop(0)
                if self.part(part) is not None:
                    self.tell_part(part, command)
            elif flushed := [thread for thread in self._flushing if not self._sends(thread)]:
                self._flushing.remove(flushed[0])
                if self.part(flushed[0]) is not None:
                    self.tell_part(flushed[0], GoOn())
            else:
                return

    def _own(self, event: Event) -> None:
        match event:
            case Loaded(log=log, records=records):
                assert log == CHECKPOINTS, f"{self.name}: a log {log}"
                for key, value in records:
                    if value is None:
                        self.directory.checkpoints.pop(task_id(key.decode()), None)
                    else:
                        self.directory.checkpoints[task_id(key.decode())] = int(value)
            case Told(command=Start()):
                self._start()
            case Told(command=HoursPass() as command):
                for part, thread in self.threads.items():
                    self.send(part, command)
                    interval_us = self.config.commit_interval_ms * US_PER_MS
                    thread.begin_intervals(self._draws.us(DrawName.COMMIT_PHASE, interval_us, interval_us))
            case Told(command=EnforceRebalance(reason=reason)):
                for thread in self.threads.values():
                    thread.ask_for_rebalance(reason)
            case Told(command=StopPolling() as command):
                for part in self.threads:
                    self.send(part, command)
            case Told(command=LeaveGradually(leaving=leaving)):
                self._leave_gradually(leaving)
            case Told(command=Close()):
                self._close()
            case TimerFired(key=(InstanceTimer.COMMIT,)):
                for each in self.threads.values():
                    each.tasks.commit()
                self.start_timer((InstanceTimer.COMMIT,), self.config.commit_interval_ms * US_PER_MS)
            case TimerFired(key=(InstanceTimer.COMMIT_DUE, part)):
                if part in self.threads:
                    self.threads[part].commit_due()
            case TimerFired(key=(InstanceTimer.REBALANCE, part)):
                if part in self.threads:
                    self.threads[part].ask_for_rebalance(self.threads[part].due)
            case Appended():
                pass  # a checkpoint is on disk
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _start(self) -> None:
        config, layout = self.config, self._layout
        probes = layout is Layout.HIGH_AVAILABILITY
        tolerates = layout is Layout.LEARNER and config.emulated_assignor_stage == BALANCE
        lags = {Layout.LEARNER: config.emulated_learner_ready_lag, Layout.STICKY: 0}
        self.note(
            InstanceStarted(
                application=self.application,
                instance=self.name,
                process=self._process_id.hex(),
                assignor=config.emulated_task_assignor,
                threads=len(self.threads),
                weight=(config.emulated_weight if layout is Layout.LEARNER else 0) or len(self.threads),
                standbys=config.num_standby_replicas,
                warmups=config.max_warmup_replicas if probes else 0,
                ready_lag=lags.get(layout, config.acceptable_recovery_lag),
                imbalance=config.stream_imbalance_percentage if tolerates else "",
                probing_us=config.probing_rebalance_interval_ms * US_PER_MS if probes else 0,
                changelogs=tuple(each.changelog for each in self.topology.subtopologies),
                sources=tuple(tuple(each.topics) for each in self.topology.subtopologies),
            )
        )
        for thread in self.threads.values():
            self._start_thread(thread)
        if not config.exactly_once:  # with exactly once, open state has no checkpoint
            self.start_timer((InstanceTimer.COMMIT,), config.commit_interval_ms * US_PER_MS)

    def _start_thread(self, thread: StreamThread) -> None:
        self._admit(thread.part, self._consumer_of(thread))
        self._admit(thread.reader_part, self._reader_of(thread))
        changelogs = tuple(dict.fromkeys(each.changelog for each in self.topology.subtopologies if each.changelog))
        if changelogs and not self.config.producer_per_task:
            self._admit_producer(f"{thread.part}-producer", changelogs)

    def _admit_producer(self, part: str, topics: tuple[str, ...]) -> None:
        self._producers.setdefault(part.partition("-")[0], []).append(part)
        self._admit(part, self._producer_of(part, topics))

    def _align_task_producers(self) -> None:
        """Keep one producer for each active task with state. Source: ``ActiveTaskCreator``."""
        for thread in self.threads.values():
            wanted = {
                thread.producer_part(one.task): one.changelog[0]
                for one in thread.tasks.of_role(TaskRole.ACTIVE)
                if one.changelog is not None
            }
            there = self._producers.setdefault(thread.part, [])
            for part in [part for part in there if part not in wanted]:
                there.remove(part)
                self.dismiss(part)
            for part, topic in wanted.items():
                if part not in there:
                    self._admit_producer(part, (topic,))

    def _sends(self, thread: str) -> bool:
        """Whether a record of a thread for a changelog is neither acknowledged nor failed."""
        machines = (self.part(part) for part in self._producers.get(thread, ()))
        return any(machine.is_busy for machine in machines if isinstance(machine, Producer))

    def _admit(self, part: str, machine: Consumer | Producer) -> None:
        self.admit(part, machine)
        self.send(part, Start())

    def _leave_gradually(self, leaving: bool) -> None:
        if leaving is (self.leaving_since_us is not None):
            return
        self.leaving_since_us = self.now_us if leaving else None
        self.note(InstanceLeaving(application=self.application, instance=self.name, leaving=leaving))
        for thread in self.threads.values():
            thread.ask_for_rebalance(Rejoin.LEAVING if leaving else Rejoin.STAYING)

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            for thread in self.threads.values():
                thread.tell_to_close()
        if not self.threads:
            self.finished = True

    def _thread_died(self, part: str) -> None:
        """React to the failure of a thread's consumer. Nothing is committed; the exception handler decides about the
        other threads.
        Source: ``StreamThread.completeShutdown``; KIP-671, ``StreamsUncaughtExceptionHandler``.
        """
        thread = self.threads.pop(part)
        thread.tasks.close_all(clean=False)
        self.dismiss(part)
        self._dismiss_helpers(thread)
        match self.config.emulated_uncaught_exception:
            case modes.REPLACE_THREAD if not self._closing:
                self.note(ThreadReplaced(application=self.application, instance=self.name, thread=part))
                replacement = self.threads[part] = self._make(thread.number)
                self._start_thread(replacement)
            case modes.SHUTDOWN_CLIENT:
                self._close()

    # --- the machines ------------------------------------------------------------------------------------------

    def _consumer_of(self, thread: StreamThread) -> Consumer:
        name = part_on(self.name, thread.part)
        config = evolve(
            self._consumer,
            group_id=self.application,
            client_id=name,
            partition_assignment_strategy=(STREAMS_ASSIGNOR,),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            internal_leave_group_on_close=False,
            enable_parallel_rebalance=False,  # a task needs records in order, and commits only to the first log
        )
        assignor: Assignor = StreamsProtocol(thread, self._protocols)
        return Consumer(
            name,
            config,
            self.topology.topics,
            bootstrap=self._bootstrap,
            assignors={STREAMS_ASSIGNOR: assignor},
            chance=self._chance_of(thread.part),
            draws=self._draws,
            listener=thread,
            application=thread,
            versions=self._versions,
            metadata_rules=self._metadata_rules,
            rules_of=thread.rules_of(self._rules_of),
            tasks_first=True,
        )

    def _reader_of(self, thread: StreamThread) -> Consumer:
        name = part_on(self.name, thread.reader_part)
        config = evolve(
            self._consumer,
            group_id="",
            group_instance_id=None,
            client_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(STREAMS_ASSIGNOR,),
        )
        assignor: Assignor = StreamsProtocol(thread, self._protocols)
        return Consumer(
            name,
            config,
            (),
            bootstrap=self._bootstrap,
            assignors={STREAMS_ASSIGNOR: assignor},
            chance=self._chance_of(thread.reader_part),
            draws=self._draws,
            application=ReaderLoop(thread),
            versions=self._versions,
            metadata_rules=self._metadata_rules,
        )

    def _producer_of(self, part: str, topics: tuple[str, ...]) -> Producer:
        config = evolve(self._producer, emulated_records_per_s=0)
        if self.config.exactly_once:
            config = evolve(config, acks=ALL, enable_idempotence=True, delivery_timeout_ms=LARGEST_INT)
        return Producer(
            part_on(self.name, part),
            topics,
            config,
            bootstrap=self._bootstrap,
            chance=self._chance_of(part),
            draws=self._draws,
            versions=self._versions,
            metadata_rules=self._metadata_rules,
        )

    def _chance_of(self, part: str) -> Chance:
        """A random stream for each machine: to a broker, successive producers of one part are different producers."""
        count = self._lives[part] = self._lives.get(part, 0) + 1
        return self._chances(part if count == 1 else f"{part}/{count}")

    # --- reports of parts --------------------------------------------------------------------------------------

    def part_noted(self, part: str, fact: object) -> None:
        """Store the threads' member ids, and the acknowledged ends of changelogs."""
        if type(fact) is PartitionsAssigned and part in self.threads:
            self.threads[part].member_id = fact.member_id
        elif type(fact) is MemberFailed and part in self.threads:
            self._failed.append(part)
        elif type(fact) is RecordsAcknowledged:
            at: TopicPartition = (fact.topic, fact.partition)
            self.threads[part.partition("-")[0]].tasks.acknowledged(at, fact.base_offset + fact.count)

    def part_finished(self, part: str) -> None:
        """Dismiss the other machines of a closed thread, and end the instance with its last thread."""
        if part not in self.threads:
            return
        thread = self.threads.pop(part)
        thread.tasks.close_all()
        self._dismiss_helpers(thread)
        if not self.threads:
            self.stop_timer((InstanceTimer.COMMIT,))
            self.finished = True

    def _dismiss_helpers(self, thread: StreamThread) -> None:
        """Dismiss the reader and the producers of an ended thread."""
        self.dismiss(thread.reader_part)
        for part in self._producers.pop(thread.part, ()):
            self.dismiss(part)
        if thread.part in self._flushing:
            self._flushing.remove(thread.part)
        self.stop_timer((InstanceTimer.REBALANCE, thread.part))
        self.stop_timer((InstanceTimer.COMMIT_DUE, thread.part))

    # --- ``ThreadHost`` ------------------------------------------------------------------------------------------

    def send(self, part: str, command: object) -> None:
        self._outbox.append((part, command))

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        self._inside.last_token += 1
        value = None if offset is None else str(offset).encode()
        self.append(CHECKPOINTS, ((str(task).encode(), value),), self._inside.last_token)

    def rebalance_in(self, thread: str, after_us: int | None) -> None:
        if after_us is None:
            self.stop_timer((InstanceTimer.REBALANCE, thread))
        else:
            self.start_timer((InstanceTimer.REBALANCE, thread), after_us)

    def commit_in(self, thread: str, after_us: int) -> None:
        self.start_timer((InstanceTimer.COMMIT_DUE, thread), after_us)

    def flush_changelogs(self, thread: str) -> bool:
        producers = self._producers.get(thread, ())
        if not self._sends(thread) and not any(part in producers for part, _ in self._outbox):
            return True
        for part in producers:
            self.send(part, FlushRecords())
        self._flushing.append(thread)
        return False

    def released(self) -> None:
        if not self._released:
            self._released = True
            self.note(InstanceReleased(application=self.application, instance=self.name))
            self._close()
