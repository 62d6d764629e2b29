"""The controller of a replicated cluster, and the broker processes that the controller knows.

The state follows from the store's writes and from facts about hosts. A checker shows its facts to ``ControlPlane``
(``Checker.shown_to``).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kemu.emulator.facts import BrokerHostAdded, HostDown, HostStarted, RunStarted, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition, broker_host, host_of
from kemu.protocol.nodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, DELETE_TOPICS
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    BrokersChanged,
    ControlledShutdownAnswered,
    ControllerReady,
    LogDirFailed,
    LogOfAnotherTopic,
    NodeWritten,
    SessionEnded,
    SessionOpened,
)

START_US = 15_000_000
"""Longest time in us in which an elected broker reads the cluster before its first decision: twice the
``controller.start`` draw."""


class Registration(NamedTuple):
    """A broker's node in the store: zxid, life of the broker, epoch of the ready controller (-1 without a controller),
    and time of the creation.
    """

    zxid: int
    life: int
    controller: int
    at_us: int


_NONE = Registration(-1, -1, -1, 0)


class ControlPlane:
    """The controller, the registrations and the sessions of a replicated cluster."""

    def __init__(self) -> None:
        self.hosts: tuple[str, ...] = ()
        """Hosts of all brokers, running or not."""
        self.controller = ""
        """Host of the controller in the store; "" without a controller."""
        self.is_vacant = False
        """Whether the controller's node was deleted and no broker has become controller since. While the node exists,
        no broker can become controller; the node may outlive its session (KAFKA-7165)."""
        self.epoch = 0
        """Number of controllers elected so far."""
        self.elected_us = 0
        self.decides_from_us = 0
        """Time from which the newest controller must be ready to decide, in us."""
        self.deleting: dict[str, None] = {}
        """Topics with a deletion request in the store."""
        self.unusable: dict[tuple[str, TopicPartition], None] = {}
        """(host, partition) of replicas without a role: a failed log directory, or the log of another topic."""
        self.of_another_topic: dict[tuple[str, TopicPartition], None] = {}
        """The unusable replicas with the log of another topic. Controllers ignore their error
        (INCONSISTENT_TOPIC_ID)."""
        self._sessions: dict[str, int] = {}
        """Host -> newest session of the host."""
        self._of_controller = -1
        """The session of the newest controller."""
        self._lives: dict[str, int] = {}
        """Running host -> number of its life."""
        self._registered: dict[str, Registration] = {}
        self._noticed_us: dict[str, int] = {}
        """Host -> time at which the controller noticed its registration, in us."""
        self._restarted_us: dict[str, int] = {}
        self._closing: dict[str, None] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._run_started,
            BrokerHostAdded: self._broker_added,
            HostStarted: self._started,
            HostDown: self._went_down,
            NodeWritten: self._written,
            SessionOpened: self._session_opened,
            SessionEnded: self._session_ended,
            BrokersChanged: self._noticed,
            ControllerReady: self._is_ready,
            ControlledShutdownAnswered: self._is_closing,
            LogDirFailed: self._dir_failed,
            LogOfAnotherTopic: self._log_of_another_topic,
            BecameLeader: self._takes_part,
            BecameFollower: self._takes_part,
        }

    def zxid(self, host: str) -> int:
        """The zxid of the broker's registration; -1 without a registration."""
        return self._registered.get(host, _NONE).zxid

    def registration(self, host: str) -> int:
        """The zxid of the registration by the broker's present process; -1 if unregistered, or while the process is
        closing.
        """
        known = self._registered.get(host, _NONE)
        return known.zxid if known.life == self._lives.get(host) and host not in self._closing else -1

    def is_stale(self, host: str) -> bool:
        """Whether an earlier process made the broker's registration. The broker may run again."""
        return host in self._registered and self._registered[host].life != self._lives.get(host)

    def unregistered(self) -> Iterator[tuple[str, int]]:
        """(host, life) of brokers whose present process has no registration."""
        for host in self.hosts:
            if self.runs(host) and self._registered.get(host, _NONE).life != self._lives[host]:
                yield host, self._lives[host]

    @property
    def registrations(self) -> tuple[int, ...]:
        """The zxid of each broker's registration, in the order of ``hosts``."""
        return tuple(map(self.zxid, self.hosts))

    def registered_us(self, host: str) -> int:
        """Time of the broker's last registration, in us."""
        return self._registered.get(host, _NONE).at_us

    def noticed_us(self, host: str) -> int | None:
        """Time at which a ready controller noticed the broker's registration, in us; None if none did. Controllers also
        read registrations when they start.
        """
        return self._noticed_us.get(host)

    def runs(self, host: str) -> bool:
        """Whether the broker's process is up and not closing."""
        return host in self._lives and host not in self._closing

    def restarted_us(self, host: str) -> int:
        """Start time of the host's process, in us; 0 for its first process."""
        return self._restarted_us.get(host, 0)

    def registered_before(self, host: str) -> bool:
        """Whether the broker registered while the present controller was ready."""
        return self._registered.get(host, _NONE).controller == self.epoch

    # --- hosts -------------------------------------------------------------------------------------------------

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self.hosts = fact.brokers

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> None:
        self.hosts = (*self.hosts, fact.host)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._lives[fact.host] = fact.life
        if fact.life > 1:
            self._restarted_us[fact.host] = seen.at_us
        self._closing.pop(fact.host, None)
        for key in [key for key in self.unusable if key[0] == fact.host]:
            self._usable(key)

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        self._lives.pop(fact.host, None)
        if fact.host == self.controller:
            self.controller = ""  # the controller's node stays until the session ends

    def _is_closing(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is ErrorCode.NONE:
            self._closing[broker_host(fact.broker_id)] = None

    # --- the store ---------------------------------------------------------------------------------------------

    def _session_opened(self, seen: Seen, fact: SessionOpened) -> None:
        self._sessions[host_of(fact.client)] = fact.session_id

    def _session_ended(self, seen: Seen, fact: SessionEnded) -> None:
        """Note that a controller whose session ended has lost its role, although its node may remain."""
        if fact.session_id == self._of_controller:
            self.controller = ""

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        is_deleted = fact.what == "deleted"
        if fact.path == CONTROLLER and is_deleted:
            self.controller, self.is_vacant = "", True
        elif fact.path == CONTROLLER_EPOCH and fact.client and not is_deleted:
            self.controller, self.is_vacant, self.elected_us = host_of(fact.client), False, seen.at_us
            self._of_controller = self._sessions.get(self.controller, -1)
            self.epoch += 1
            self.decides_from_us = seen.at_us + START_US
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            host = broker_host(int(fact.path.rpartition("/")[2]))
            self._registered.pop(host, None)
            self._noticed_us.pop(host, None)
            if not is_deleted:
                known = (
                    self.epoch if seen.at_us >= self.decides_from_us else -1
                )  # otherwise the controller may read the registration at its start
                self._registered[host] = Registration(fact.zxid, self._lives.get(host, -1), known, seen.at_us)
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            topic = fact.path.rpartition("/")[2]
            self.deleting.pop(topic, None)
            if not is_deleted:
                self.deleting[topic] = None

    def _noticed(self, seen: Seen, fact: BrokersChanged) -> None:
        if host_of(seen.actor) == self.controller:
            self._noticed_us.update((broker_host(broker), seen.at_us) for broker in (*fact.new, *fact.bounced))

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if host_of(seen.actor) == self.controller:
            self.decides_from_us = min(self.decides_from_us, seen.at_us)

    # --- replicas ----------------------------------------------------------------------------------------------

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self.unusable.update(dict.fromkeys((seen.actor, at) for at in fact.partitions))

    def _log_of_another_topic(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self.unusable[seen.actor, (fact.topic, fact.partition)] = None
        self.of_another_topic[seen.actor, (fact.topic, fact.partition)] = None

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        if self.unusable:
            self._usable((seen.actor, (fact.topic, fact.partition)))

    def _usable(self, key: tuple[str, TopicPartition]) -> None:
        self.unusable.pop(key, None)
        self.of_another_topic.pop(key, None)
