"""A Streams instance: threads that are members of a group, what they share, and the machines that do their I/O.

The parts of an instance ``s1`` with two threads are the consumers ``s1/t1`` and ``s1/t2``, their readers of changelogs
``s1/t1-restore``, and their producers ``s1/t1-producer``, each for all changelogs of its thread, as a KafkaStreams
process has them. With ``processing.guarantee = exactly_once``, the first way there was, each active task has a producer
of its own, ``s1/t1-0_3-producer`` (KIP-447). A thread restores and works in turns; Kafka from 3.7 on may restore in a
thread of its own.

Source: Kafka's ``KafkaStreams``, ``StreamThread``; KIP-429 (page version 99).
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from attrs import evolve

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
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.metadata_rules import METADATA_2_8, MetadataRules
from kemu.protocol.names import ActorName, MemberId, TopicPartition, part_on
from kemu.protocol.notes.groups import MemberFailed, PartitionsAssigned, RecordsAcknowledged, Rejoin
from kemu.protocol.notes.streams import InstanceLeaving, InstanceReleased, InstanceStarted, ThreadReplaced
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors
from kemu.protocol.streams import modes
from kemu.protocol.streams.learner import BALANCE
from kemu.protocol.streams.metadata import Layout
from kemu.protocol.streams.registry import TaskAssignor
from kemu.protocol.streams.releases import TASK_RULES, TaskRules
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.streams.threads import ThreadPlacement
from kemu.protocol.streams.topology import Topology

CHECKPOINTS = "checkpoints"
"""The log of the disk in which an instance's checkpoints stand, the last one of a task in force."""
ALL = -1
LARGEST_INT = 2**31 - 1
"""``delivery.timeout.ms`` under exactly once. Source: ``StreamsConfig.PRODUCER_EOS_OVERRIDES``."""
ChanceOf: TypeAlias = Callable[[str], Chance]
"""The own stream of chance of a part."""


class InstanceTimer(StrEnum):
    """The instance's own timers."""

    COMMIT = "commit"
    """Checkpoints of what runs are due."""
    COMMIT_DUE = "commit-due"
    """A thread is to commit what it has processed."""
    REBALANCE = "rebalance"
    """A thread is to ask for a rebalance: warm-ups may have caught up, or a leaving instance has used up its time."""


class StreamsProtocol:
    """The one row that a thread's consumer finds among its assignors: the thread itself."""

    name = STREAMS_ASSIGNOR
    version = 0

    def __init__(self, thread: StreamThread, protocols: tuple[RebalanceProtocol, ...]) -> None:
        self.protocols = protocols
        self._thread = thread

    def for_member(self) -> MemberAssignor:
        """The thread."""
        return self._thread

    def user_data(self, memory: Memory | None) -> bytes | None:
        """Only a thread knows its tasks."""
        raise AssertionError("a consumer asks the thread (for_member)")

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Only a thread decides, and perhaps later."""
        raise AssertionError("a consumer asks the thread (for_member)")


class Instance(HostingMachine):
    """See the module.

    Args:
        name: the host, which is the actor's name.
        application: ``application.id``: the group, and how its internal topics begin.
        consumer: what its threads' consumers are configured like, group and client ids aside.
        process_id: 16 bytes; the same in each life whose disk is that of the one before (KAFKA-10716).
        chances: one stream for each thread's consumer, reader and producers, by part.
        custom: a task assignor in place of the learners of KIP-429's page.
        placement: how a leader among its threads spreads an instance's tasks over threads.
        metadata_rules: which leader epochs in metadata the release's clients believe.
        uses_nonce, task_rules: see ``StreamThread``.
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
        metadata_rules: MetadataRules = METADATA_2_8,
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
        """By thread, the parts that write its changelogs."""
        self._failed: list[str] = []
        """Threads whose consumer raised, and that are still to be buried."""
        self._flushing: list[str] = []
        """Threads that wait until all they sent to changelogs is acknowledged, or given up."""
        self._lives: dict[str, int] = {}
        """By part: how many machines there were of it."""

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
        """What concerns a part is its step; then what threads want of their parts is done, until nothing is left."""
        if not self.passed_on(event):
            self._own(event)
        self._do_what_threads_want()
        while self.directory.let_go:
            # Kafka's threads try again in each of their loops: ``TaskManager``, ``LockException``.
            self.directory.let_go = False
            for thread in self.threads.values():
                thread.directory_free()
            self._do_what_threads_want()

    def _do_what_threads_want(self) -> None:
        while True:
            if self.config.producer_per_task:
                self._have_producers_of_tasks()
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
                pass  # a checkpoint is on the disk
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _start(self) -> None:
        config, layout = self.config, self._layout
        looks_again = layout is Layout.HIGH_AVAILABILITY
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
                warmups=config.max_warmup_replicas if looks_again else 0,
                ready_lag=lags.get(layout, config.acceptable_recovery_lag),
                imbalance=config.stream_imbalance_percentage if tolerates else "",
                probing_us=config.probing_rebalance_interval_ms * US_PER_MS if looks_again else 0,
                changelogs=tuple(each.changelog for each in self.topology.subtopologies),
                sources=tuple(tuple(each.topics) for each in self.topology.subtopologies),
            )
        )
        for thread in self.threads.values():
            self._start_thread(thread)
        if not config.exactly_once:  # state that is open has no checkpoint then
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

    def _have_producers_of_tasks(self) -> None:
        """A producer for each active task with state, as long as it is that. Source: ``ActiveTaskCreator``."""
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
        """Whether something a thread sent to its changelogs is not decided."""
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
        """Its consumer raised: nothing is committed, and what becomes of the others is the application's to say.

        Source: ``StreamThread.completeShutdown``; KIP-671, ``StreamsUncaughtExceptionHandler``.
        """
        thread = self.threads.pop(part)
        thread.tasks.close_all(clean=False)
        self.dismiss(part)
        self._dismiss_helpers(thread)
        match self.config.emulated_uncaught_exception:
            case modes.REPLACE_THREAD if not self._closing:
                self.note(ThreadReplaced(application=self.application, instance=self.name, thread=part))
                again = self.threads[part] = self._make(thread.number)
                self._start_thread(again)
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
            enable_parallel_rebalance=False,  # a task takes records in their order, and commits the first log only
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
        """Each machine's own: two producers of one part are not one producer to a broker."""
        count = self._lives[part] = self._lives.get(part, 0) + 1
        return self._chances(part if count == 1 else f"{part}/{count}")

    # --- what parts report -------------------------------------------------------------------------------------

    def part_noted(self, part: str, fact: object) -> None:
        """Who its threads are, and what of their state is in the changelogs."""
        if type(fact) is PartitionsAssigned and part in self.threads:
            self.threads[part].member_id = fact.member_id
        elif type(fact) is MemberFailed and part in self.threads:
            self._failed.append(part)
        elif type(fact) is RecordsAcknowledged:
            at: TopicPartition = (fact.topic, fact.partition)
            self.threads[part.partition("-")[0]].tasks.acknowledged(at, fact.base_offset + fact.count)

    def part_finished(self, part: str) -> None:
        """A thread closed: its other machines go, and with the last thread the instance."""
        if part not in self.threads:
            return
        thread = self.threads.pop(part)
        thread.tasks.close_all()
        self._dismiss_helpers(thread)
        if not self.threads:
            self.stop_timer((InstanceTimer.COMMIT,))
            self.finished = True

    def _dismiss_helpers(self, thread: StreamThread) -> None:
        """A thread is gone: so are its other machines."""
        self.dismiss(thread.reader_part)
        for part in self._producers.pop(thread.part, ()):
            self.dismiss(part)
        if thread.part in self._flushing:
            self._flushing.remove(thread.part)
        self.stop_timer((InstanceTimer.REBALANCE, thread.part))
        self.stop_timer((InstanceTimer.COMMIT_DUE, thread.part))

    # --- what threads want -------------------------------------------------------------------------------------

    def send(self, part: str, command: object) -> None:
        """See ``ThreadHost``."""
        self._outbox.append((part, command))

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        """See ``ThreadHost``."""
        self._last_token += 1
        value = None if offset is None else str(offset).encode()
        self.append(CHECKPOINTS, ((str(task).encode(), value),), self._last_token)

    def rebalance_in(self, thread: str, after_us: int | None) -> None:
        """See ``ThreadHost``."""
        if after_us is None:
            self.stop_timer((InstanceTimer.REBALANCE, thread))
        else:
            self.start_timer((InstanceTimer.REBALANCE, thread), after_us)

    def commit_in(self, thread: str, after_us: int) -> None:
        """See ``ThreadHost``."""
        self.start_timer((InstanceTimer.COMMIT_DUE, thread), after_us)

    def flush_changelogs(self, thread: str) -> bool:
        """See ``ThreadHost``: what is to be sent to a producer in this step counts."""
        producers = self._producers.get(thread, ())
        if not self._sends(thread) and not any(part in producers for part, _ in self._outbox):
            return True
        for part in producers:
            self.send(part, FlushRecords())
        self._flushing.append(thread)
        return False

    def released(self) -> None:
        """See ``ThreadHost``."""
        if not self._released:
            self._released = True
            self.note(InstanceReleased(application=self.application, instance=self.name))
            self._close()
