"""Logs of removed replicas, which brokers must delete (part of ``duties``).

- replica-kept: a broker deletes the log of a replica that it lost (bound: a
  controller's order), and no disk restores a deleted log.

The controller sends the request to delete a log (StopReplica) to live brokers. The request is lost if the controller
stops or the broker's registration ends. No controller waits for the answer, and the store has no record of the request
for the next controller. After a lost request the log is not deleted. A log also stays if its deletion was not on the
disk at a power cut, or if a disk restored the log.

Source: Kafka 3.4 ``ControllerChannelManager.removeBroker``,
``KafkaController.onPartitionReassignment``.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kemu.actors.broker.partition_log import JOURNALS, log_name
from kemu.emulator.checkers.duty import Duties, Duty
from kemu.emulator.facts import DiskTailLost, HostDown, HostStarted, Seen
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.protocol.names import TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    BrokersChanged,
    NodeWritten,
    ReplicaRestored,
    ReplicaStopped,
)

Kept = tuple[str, TopicPartition]
"""(host, partition)."""
_GONE, _PERHAPS = 0, -1
"""States of a deleted log after its host went down: deleted, or perhaps on the disk."""


class _Lost(NamedTuple):
    """A removed replica: controller, registration of the broker and leader epoch at the removal."""

    controller: int
    registration: int
    epoch: int


_WITHOUT_ORDER = _Lost(0, -1, -1)
"""Stands for a removal without a controller that sends the request to delete the log."""


class KeptLogs(Duties):
    """Duties about logs that a broker must delete."""

    def __init__(self, plane: ControlPlane, create_us: int) -> None:
        super().__init__(plane, create_us)
        self._on_disk: dict[Kept, None] = {}
        self._lost: dict[Kept, _Lost] = {}
        self._deleted: dict[Kept, int] = {}
        """Deleted log -> life of the process that deleted the log, or ``_GONE`` or ``_PERHAPS``."""
        self.on = {
            BecameLeader: self._takes_part,
            BecameFollower: self._takes_part,
            ReplicaStopped: self._stopped,
            ReplicaRestored: self._restored,
            BrokersChanged: self._brokers_changed,
            NodeWritten: self._written,
            HostDown: self._down,
            HostStarted: self._started,
            DiskTailLost: self._tail_lost,
        }

    def owed(self) -> Iterator[Duty]:
        """Yield duties about logs that a broker must delete because a controller removed the replica."""
        for (host, at), lost in self._lost.items():
            if self.plane.controller and self._is_owed(host, lost):
                name = f"{at[0]}-{at[1]}"
                text = f"{host} keeps its log of {name}, of which it no longer has a replica"
                yield self.order("replica-kept", (name, host), host, None, self.orders_us, text)

    def left_over(self) -> Iterator[Kept]:
        """Logs that no broker will delete."""
        for (host, at), lost in self._lost.items():
            if host not in self.panel.away and not self._is_owed(host, lost):
                yield host, at

    def _is_owed(self, host: str, lost: _Lost) -> bool:
        return lost[:2] == (self.plane.epoch, self.plane.registration(host))

    def _is_replica(self, key: Kept) -> bool:
        there = self.panel.assigned.get(key[1])
        return there is not None and broker_of(key[0]) in there.replicas

    # --- facts -------------------------------------------------------------------------------------------------

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._on_disk[key] = None
        self._deleted.pop(key, None)
        if self._is_replica(key):
            self._lost.pop(key, None)
        elif key not in self._lost or self._lost[key].epoch < fact.leader_epoch:
            self._lost[key] = _Lost(self.plane.epoch, self.plane.registration(seen.actor), fact.leader_epoch)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            key = (seen.actor, (fact.topic, fact.partition))
            self._on_disk.pop(key, None)
            self._lost.pop(key, None)
            self._deleted[key] = seen.life

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._on_disk[key] = None
        deleted = self._deleted.pop(key, None)
        if deleted == _GONE:
            name = f"{fact.topic}-{fact.partition}"
            text = f"the disk of {seen.actor} restores the log of {name}, which was deleted"
            self.violation(seen, "replica-kept", (name, seen.actor), text)
        if deleted is not None and not self._is_replica(key):
            self._lost[key] = _WITHOUT_ORDER

    def _brokers_changed(self, seen: Seen, fact: BrokersChanged) -> None:
        """Note that the controller sent no earlier requests to these brokers."""
        news = [broker_host(broker) for broker in (*fact.new, *fact.bounced)]
        self._lost.update([(key, _WITHOUT_ORDER) for key in self._lost if key[0] in news])

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        panel, plane = self.panel, self.plane
        deleted_topic = panel.written_topic if fact.what == "deleted" else ""
        if not deleted_topic and not panel.replicas_changed:
            return
        for host, at in self._on_disk:
            if self._is_replica((host, at)):
                self._lost.pop((host, at), None)
            elif at in panel.replicas_changed or at[0] == deleted_topic:
                was_there = at[0] == deleted_topic or broker_of(host) in panel.replicas_changed[at]
                sends = was_there and host_of(fact.client) == plane.controller and plane.registration(host) >= 0
                state = panel.states.get(at)
                lost = _Lost(plane.epoch, plane.registration(host), state.leader_epoch if state is not None else -1)
                self._lost.setdefault((host, at), lost if sends else _WITHOUT_ORDER)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        """Note that a power cut may undo a deletion. A log that the next start does not find is deleted."""
        for key, life in self._deleted.items():
            if key[0] == fact.host:
                self._deleted[key] = _PERHAPS if fact.how == "power" and life == fact.life else _GONE

    def _tail_lost(self, seen: Seen, fact: DiskTailLost) -> None:
        for key in self._deleted:
            if key[0] == fact.host and fact.log == JOURNALS + log_name(*key[1]):
                self._deleted[key] = _PERHAPS

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for known in (self._on_disk, self._lost, self._deleted):
                for key in [key for key in known if key[0] == fact.host]:
                    del known[key]
