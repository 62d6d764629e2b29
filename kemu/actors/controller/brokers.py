"""The controller's reaction to brokers that start, fail, restart, or request a controlled shutdown.

The controller reads the registered brokers from the store when the task runs, not from the event: brokers may change
while another task runs. A broker that registered under a new epoch was down for some time (KIP-380). The controller
treats such a broker as failed, and then as started. Source: Kafka 2.8 ``KafkaController``.
"""

from kemu.actors.controller.context import LiveBroker, PartitionReplica
from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.transactions import Work, ask, ask_one, children, get
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    UNKNOWN_BROKER_EPOCH,
    ControlledShutdown,
    ControlledShutdownReply,
    RemainingPartition,
)
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.nodes import BROKER_IDS, broker_path, read_broker
from kemu.protocol.notes.replication import BrokersChanged, ControlledShutdownAnswered


class BrokerChanges:
    """The controller's part for registered, failed and stopping brokers."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to registrations and to controlled shutdowns."""
        to.on_watch(BROKER_IDS, Job("brokers", self.changed))
        to.on_request(ControlledShutdown, Job("admin", self.shut_down))

    def registered(self) -> Work[dict[int, LiveBroker]]:
        """The registered brokers, ascending, with a watch on the registrations."""
        listed = yield from ask_one(children(BROKER_IDS, watch=True))
        ids = sorted(int(name) for name in listed.children)
        results = yield from ask([get(broker_path(broker)) for broker in ids])
        found = {}
        for broker, result in zip(ids, results, strict=True):
            if result.code is StoreCode.OK:  # otherwise the broker's registration ended between the two reads
                found[broker] = LiveBroker(result.czxid, *read_broker(result.data))
        return found

    def changed(self) -> Work[None]:
        """Compare the registered brokers with the known brokers, and react to each difference."""
        machine, context = self._machine, self._machine.context
        now = yield from self.registered()
        known = context.live
        new = {broker: now[broker] for broker in now if broker not in known}
        dead = [broker for broker in known if broker not in now]
        bounced = {b: now[b] for b in now if b in known and now[b].epoch > known[b].epoch}
        if bounced and not machine.rules.notices_bounces:
            bounced = {}
        if not (new or dead or bounced):
            return
        machine.note(
            BrokersChanged(controller_epoch=context.epoch, new=tuple(new), dead=tuple(dead), bounced=tuple(bounced))
        )
        for broker, each in new.items():
            machine.channels.add(broker, each.host)
        for broker, each in bounced.items():
            machine.channels.remove(broker)
            machine.channels.add(broker, each.host)
        for broker in dead:
            machine.channels.remove(broker)
        if new:
            context.add_brokers(new)
            yield from self.started(list(new))
        if bounced:
            context.remove_brokers(bounced)
            yield from self.died(list(bounced))
            context.add_brokers(bounced)
            yield from self.started(list(bounced))
        if dead:
            context.remove_brokers(dead)
            yield from self.died(dead)

    def started(self, brokers: list[int]) -> Work[None]:
        """Send metadata to these new live brokers, start their replicas, and elect missing leaders."""
        machine, context = self._machine, self._machine.context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
        if machine.rules.metadata_before_leadership:
            self._send_metadata(brokers)
        replicas = context.replicas_on(brokers)
        yield from self._machine.replicas.move(replicas, ReplicaPhase.ONLINE)
        yield from self._machine.partitions.trigger_online()
        if not machine.rules.metadata_before_leadership:
            self._send_metadata(brokers)
        yield from machine.dispatch.reach(Moment.BROKERS_STARTED, brokers)

    def _send_metadata(self, brokers: list[int]) -> None:
        """Send the live brokers to all other brokers, and all partitions with a leadership to the new brokers."""
        context = self._machine.context
        others = [broker for broker in context.live if broker not in brokers]
        self._machine.batch.send_metadata(others, ())
        self._machine.batch.send_metadata(brokers, list(context.leadership))

    def died(self, brokers: list[int]) -> Work[None]:
        """Move leaderships away from these failed brokers, and take their replicas offline."""
        context = self._machine.context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
            context.shutting_down.pop(broker, None)
        yield from self.replicas_went_offline(context.replicas_on(brokers))
        yield from self._machine.dispatch.reach(Moment.BROKERS_FAILED, brokers)

    def replicas_went_offline(self, replicas: list[PartitionReplica]) -> Work[None]:
        """Elect new leaders for the partitions that these replicas led, then remove the replicas from the ISRs."""
        context = self._machine.context
        deleting = [each for each in replicas if context.is_being_deleted(each[0])]
        others = [each for each in replicas if not context.is_being_deleted(each[0])]
        leaderless = context.partitions_with_offline_leader()
        yield from self._machine.partitions.move(leaderless, PartitionPhase.OFFLINE)
        yield from self._machine.partitions.trigger_online()
        yield from self._machine.replicas.move(others, ReplicaPhase.OFFLINE)
        if deleting:
            yield from self._machine.deletion.failed(deleting)
        if not leaderless:
            self._machine.batch.send_metadata(context.live, ())

    # --- controlled shutdown -----------------------------------------------------------------------------------

    def shut_down(self, request: ControlledShutdown) -> Work[ControlledShutdownReply]:
        """Answer a broker that shuts down: move its leaderships to other brokers, and remove the broker from ISRs."""
        error = self._refusal(request)
        remaining: list[RemainingPartition] = []
        if error is ErrorCode.NONE:
            left = yield from self._move_away(request.broker_id)
            remaining = [RemainingPartition(topic_name=topic, partition_index=number) for topic, number in left]
        self._machine.note(
            ControlledShutdownAnswered(broker_id=request.broker_id, error=error, remaining=len(remaining))
        )
        return ControlledShutdownReply(error_code=error, remaining_partitions=tuple(remaining))

    def _refusal(self, request: ControlledShutdown) -> ErrorCode:
        context = self._machine.context
        known = context.live.get(request.broker_id)
        if known is None:
            return ErrorCode.BROKER_NOT_AVAILABLE
        epoch = request.broker_epoch
        if UNKNOWN_BROKER_EPOCH != epoch < known.epoch and self._machine.rules.checks_shutdown_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def _move_away(self, broker: int) -> Work[list[tuple[str, int]]]:
        context, batch = self._machine.context, self._machine.batch
        context.shutting_down[broker] = None
        concerned = [
            (topic, number)
            for topic, number, _ in context.replicas_on((broker,))
            if len(context.replicas((topic, number))) > 1
            and (topic, number) in context.leadership
            and not context.is_being_deleted(topic)
        ]
        led = [at for at in concerned if context.leadership[at].state.leader == broker]
        followed = [at for at in concerned if context.leadership[at].state.leader != broker]
        yield from self._machine.partitions.move(led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        # Stop the follower's fetches first, so that the follower cannot rejoin an ISR from which it is removed.
        batch.begin()
        for at in followed:
            batch.add_stop_replica((broker,), at, delete=False)
        batch.send()
        yield from self._machine.replicas.move([(*at, broker) for at in followed], ReplicaPhase.OFFLINE)
        return [at for at in context.leads(broker) if len(context.replicas(at)) > 1]
