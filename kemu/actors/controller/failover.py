"""The failover to a new controller: the controller's reads and requests, in order.

0. The first read of each node sets a watch, so that the controller misses no later change.
1. Delete announcements of ISRs and of failed log directories: step 2 reads the ISRs, and the brokers' answers to
step 5 report failed directories.
2. Read brokers with their epochs, topics, assignments, state nodes; open a channel to every live broker.
3. Read topic deletions: queued deletions, and deletions that cannot be done now.
4. Send UpdateMetadata (live brokers) to all brokers before any LeaderAndIsr: a broker does not follow a leader that is
not live in the broker's metadata.
5. Start the replica state machine: online replicas get LeaderAndIsr; offline replicas are removed from the ISRs.
6. Start the partition state machine: elect missing leaders.
7. Resume deletions, run preferred elections requested by a tool, start the timer of the leader rebalance.

Kafka's controller thread needs some time (``controller.start``) to read the cluster (2, 3) and to start both state
machines (5, 6). For the first controller of a cluster this time has passed when a scenario begins.

Every step can be repeated from the store alone. Source: Kafka 2.8 ``KafkaController.onControllerFailover``.
"""

from kemu.actors.controller.dispatch import Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.transactions import ThreadBusy, Work, ask, ask_one, children, create, delete
from kemu.protocol.draws import DrawName
from kemu.protocol.nodes import DELETE_TOPICS, ISR_CHANGES, LOG_DIR_EVENTS, TOPICS, read_topic, read_topic_id
from kemu.protocol.notes.replication import ControllerReady

ANNOUNCEMENTS = (ISR_CHANGES, LOG_DIR_EVENTS)


class Failover:
    """The controller's part for the failover."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def take_over(self) -> Work[None]:
        """Run the failover of a newly elected controller."""
        machine, context = self._machine, self._machine.context
        listed = yield from ask([create(LOG_DIR_EVENTS), *(children(each, watch=True) for each in ANNOUNCEMENTS)])
        rows = zip(ANNOUNCEMENTS, listed[1:], strict=True)
        yield from machine.store.write([delete(f"{path}/{name}") for path, row in rows for name in row.children])
        yield from self._read()
        yield from self._read_deletions()
        yield from self._start()
        if machine.rules.metadata_before_leadership:
            machine.batch.send_metadata(context.live, ())
        yield from self._start()
        yield from self._machine.replicas.startup()
        yield from self._machine.partitions.startup()
        if not machine.rules.metadata_before_leadership:
            machine.batch.send_metadata(context.live, ())
        yield from machine.dispatch.reach(Moment.TOOK_OVER)
        machine.note(
            ControllerReady(
                broker_id=machine.broker_id,
                controller_epoch=context.epoch,
                brokers=tuple(context.live),
                topics=len(context.topics),
                partitions=sum(len(numbers) for numbers in context.topics.values()),
            )
        )

    def _start(self) -> Work[None]:
        us = self._machine.draws.us(DrawName.CONTROLLER_START, 0) if self._machine.context.epoch > 1 else 0
        if us:
            yield ThreadBusy(us)

    def _read(self) -> Work[None]:
        machine, context = self._machine, self._machine.context
        context.add_brokers((yield from self._machine.brokers.registered()))
        listed = yield from ask_one(children(TOPICS, watch=True))
        found = yield from self._machine.topics.read_topics(listed.children)
        for topic, result in found.items():
            context.topics.setdefault(topic, {})
            context.topic_ids[topic] = read_topic_id(result.data)
            for number, assignment in read_topic(result.data).items():
                context.assign((topic, number), assignment)
                if assignment.is_being_reassigned:
                    context.reassigning[topic, number] = None
        context.leadership.update((yield from machine.store.read_states(context.partitions())))
        for broker, each in context.live.items():
            machine.channels.add(broker, each.host)

    def _read_deletions(self) -> Work[None]:
        context = self._machine.context
        queued = yield from ask_one(children(DELETE_TOPICS, watch=True))
        _, offline = context.online_and_offline_replicas()
        yield from self._machine.deletion.begin(queued.children, offline)
