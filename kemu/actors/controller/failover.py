"""A new controller takes over: what it reads, in which order, and what it says to whom.

0. Watches on everything, set with the first read of each: what changes from then on is not missed.
1. Announcements of ISRs and of failed log directories are deleted: what the first tell of is read anyway, the others
   come out when the brokers answer to 5.
2. Brokers with their epochs, topics, assignments, state nodes; a line to every live broker.
3. Topic deletions: queued ones, and those that cannot be carried out now.
4. UpdateMetadata (who lives) to all, before any LeaderAndIsr: a broker does not follow a leader it does not see alive.
5. Replica state machine up: online replicas are told; dead ones are taken out of the ISRs.
6. Partition state machine up: partitions without leader try to get one.
7. Deletions resume; preferred elections that a tool asked for; the timer of the leader rebalance.

Reading the cluster (2, 3) and getting both machines up (5, 6) takes the thread a while (``controller.start``): what the
first controller of a cluster took is over when a scenario begins.

Every step can be repeated from the store alone. Source: Kafka 2.8 ``KafkaController.onControllerFailover``.
"""

from kemu.actors.controller.dispatch import Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.transactions import ThreadBusy, Work, ask, ask_one, children, create, delete
from kemu.protocol.draws import DrawName
from kemu.protocol.nodes import DELETE_TOPICS, ISR_CHANGES, LOG_DIR_EVENTS, TOPICS, read_topic
from kemu.protocol.notes.replication import ControllerReady

ANNOUNCEMENTS = (ISR_CHANGES, LOG_DIR_EVENTS)


class Failover:
    """A part of the controller."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def take_over(self) -> Work[None]:
        """From elected to ready."""
        machine, context = self._machine, self._machine.context
        told = yield from ask([create(LOG_DIR_EVENTS), *(children(each, watch=True) for each in ANNOUNCEMENTS)])
        rows = zip(ANNOUNCEMENTS, told[1:], strict=True)
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
            context.topic_ids[topic] = result.czxid
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
