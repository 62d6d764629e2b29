"""A Streams instance: threads that are members of a group, what they share, and the machines that do their I/O.

The parts of an instance ``s1`` with two threads are the consumers ``s1/t1`` and ``s1/t2``, their readers of changelogs
``s1/t1-restore``, and a producer for each changelog that a thread writes, ``s1/t1-producer-0``: as a KafkaStreams
process has them, but that one producer there serves all changelogs of a thread. A thread restores and works in turns;
Kafka from 3.7 on may restore in a thread of its own.

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
from kemu.actors.streams.tasks import StateDirectory
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
from kemu.protocol.commands import Close, HoursPass, LeaveGradually, Start
from kemu.protocol.config import ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.messages.versions import LATEST, ApiVersions
from kemu.protocol.names import ActorName, MemberId, TopicPartition, part_on
from kemu.protocol.notes.groups import MemberFailed, PartitionsAssigned, RecordsAcknowledged, Rejoin
from kemu.protocol.notes.streams import InstanceLeaving, InstanceReleased, InstanceStarted, ThreadReplaced
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors
from kemu.protocol.streams import modes
from kemu.protocol.streams.learner import BALANCE
from kemu.protocol.streams.metadata import Layout
from kemu.protocol.streams.registry import TaskAssignor
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.streams.topology import Topology

CHECKPOINTS = "checkpoints"
"""The log of the disk in which an instance's checkpoints stand, the last one of a task in force."""
ChanceOf: TypeAlias = Callable[[str], Chance]
"""The own stream of chance of a part."""
READER_MAX_POLL_RECORDS = 1_000
"""Source: ``StreamsConfig.CONSUMER_DEFAULT_OVERRIDES``."""


class InstanceTimer(StrEnum):
    """The instance's own timers."""

    COMMIT = "commit"
    """Checkpoints of what runs are due."""
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
        return None

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """What the thread would decide, if it knows enough by itself."""
        decided = self._thread.assign(topics, members)
        return {} if decided is None else decided.partitions


class Instance(HostingMachine):
    """See the module.

    Args:
        name: the host, which is the actor's name.
        application: ``application.id``: the group, and how its internal topics begin.
        consumer: what its threads' consumers are configured like, group and client ids aside.
        process_id: 16 bytes; the same in each life whose disk is that of the one before (KAFKA-10716).
        chances: one stream for each thread's consumer, reader and producers, by part.
        custom: a task assignor in place of the learners of KIP-429's page.
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
        versions: ApiVersions = LATEST,
        rules_of: RulesOf = by_assignors,
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
        self._layout = layout
        self._process_id = process_id
        self._outbox: list[tuple[str, object]] = []
        self._released = False
        self._closing = False
        self._failed: list[str] = []
        """Threads whose consumer raised, and that are still to be buried."""

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
        while self._outbox or self._failed:
            if self._failed:
                self._thread_died(self._failed.pop(0))
                continue
            part, command = self._outbox.pop(0)
            if self.part(part) is not None:
                self.tell_part(part, command)

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
                for thread in self.threads:
                    self.send(thread, command)
            case Told(command=LeaveGradually(leaving=leaving)):
                self._leave_gradually(leaving)
            case Told(command=Close()):
                self._close()
            case TimerFired(key=(InstanceTimer.COMMIT,)):
                for each in self.threads.values():
                    each.tasks.commit()
                self.start_timer((InstanceTimer.COMMIT,), self.config.commit_interval_ms * US_PER_MS)
            case TimerFired(key=(InstanceTimer.REBALANCE, thread)):
                if thread in self.threads:
                    self.threads[thread].ask_for_rebalance(self.threads[thread].due)
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
            )
        )
        for thread in self.threads.values():
            self._start_thread(thread)
        self.start_timer((InstanceTimer.COMMIT,), self.config.commit_interval_ms * US_PER_MS)

    def _start_thread(self, thread: StreamThread) -> None:
        self._admit(thread.part, self._consumer_of(thread))
        self._admit(thread.reader_part, self._reader_of(thread))
        for changelog in dict.fromkeys(each.changelog for each in self.topology.subtopologies if each.changelog):
            self._admit(thread.producer_part(changelog), self._producer_of(thread, changelog))

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
            enable_auto_commit=True,
            auto_commit_interval_ms=self.config.commit_interval_ms,
            auto_offset_reset="earliest",
            internal_leave_group_on_close=False,
        )
        assignor: Assignor = StreamsProtocol(thread, self._protocols)
        return Consumer(
            name,
            config,
            self.topology.topics,
            bootstrap=self._bootstrap,
            assignors={STREAMS_ASSIGNOR: assignor},
            chance=self._chances(thread.part),
            draws=self._draws,
            listener=thread,
            application=thread,
            versions=self._versions,
            rules_of=thread.rules_of(self._rules_of),
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
            max_poll_records=READER_MAX_POLL_RECORDS,
            partition_assignment_strategy=(STREAMS_ASSIGNOR,),
        )
        assignor: Assignor = StreamsProtocol(thread, self._protocols)
        return Consumer(
            name,
            config,
            (),
            bootstrap=self._bootstrap,
            assignors={STREAMS_ASSIGNOR: assignor},
            chance=self._chances(thread.reader_part),
            draws=self._draws,
            application=ReaderLoop(thread),
            versions=self._versions,
        )

    def _producer_of(self, thread: StreamThread, changelog: str) -> Producer:
        part = thread.producer_part(changelog)
        config = evolve(self._producer, emulated_records_per_s=0)
        return Producer(
            part_on(self.name, part),
            changelog,
            config,
            bootstrap=self._bootstrap,
            chance=self._chances(part),
            draws=self._draws,
            versions=self._versions,
        )

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
        for changelog in dict.fromkeys(each.changelog for each in self.topology.subtopologies if each.changelog):
            if self.part(thread.producer_part(changelog)) is not None:
                self.dismiss(thread.producer_part(changelog))
        self.stop_timer((InstanceTimer.REBALANCE, thread.part))

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

    def released(self) -> None:
        """See ``ThreadHost``."""
        if not self._released:
            self._released = True
            self.note(InstanceReleased(application=self.application, instance=self.name))
            self._close()
