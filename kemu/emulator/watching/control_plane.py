"""Who controls a replicated cluster, and which broker processes it can count on.

Read from the store's writes and from the facts about hosts; a checker shows its facts to it (``Checker.shown_to``).
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
    ControlledShutdownAnswered,
    ControllerReady,
    LogDirFailed,
    LogOfAnotherTopic,
    NodeWritten,
    SessionEnded,
    SessionOpened,
)

START_US = 15_000_000
"""How long an elected broker may take to read the cluster before it decides: the ``controller.start`` draw, twice."""


class Registration(NamedTuple):
    """A broker's node in the store: who made it, and under which controller, if that one was ready."""

    zxid: int
    life: int
    controller: int
    at_us: int


_NONE = Registration(-1, -1, -1, 0)


class ControlPlane:
    """See the module."""

    def __init__(self) -> None:
        self.hosts: tuple[str, ...] = ()
        """Of the brokers, whether they run or not."""
        self.controller = ""
        """Host of the controller that the store has; "": none."""
        self.is_vacant = False
        """Whether the controller's node was deleted, and no other broker became controller. While the node is there
        nobody can: it may outlive its session (KAFKA-7165)."""
        self.epoch = 0
        """How many controllers there were."""
        self.elected_us = 0
        self.decides_from_us = 0
        """From when on that controller must be ready to decide."""
        self.deleting: dict[str, None] = {}
        """Topics whose deletion is asked for in the store."""
        self.unusable: dict[tuple[str, TopicPartition], None] = {}
        """(host, partition) of replicas that take no part: a failed log directory, or a log of another topic."""
        self.kept_out: dict[tuple[str, TopicPartition], None] = {}
        """Those of them with a log of another topic. No controller acts on the error (INCONSISTENT_TOPIC_ID)."""
        self._sessions: dict[str, int] = {}
        """Host -> its newest session."""
        self._of_controller = -1
        """The session of the newest controller."""
        self._lives: dict[str, int] = {}
        """Of hosts that run."""
        self._registered: dict[str, Registration] = {}
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
            ControllerReady: self._is_ready,
            ControlledShutdownAnswered: self._closes,
            LogDirFailed: self._dir_failed,
            LogOfAnotherTopic: self._kept_out,
            BecameLeader: self._takes_part,
            BecameFollower: self._takes_part,
        }

    def zxid(self, host: str) -> int:
        """Of the broker's registration; -1: it has none."""
        return self._registered.get(host, _NONE).zxid

    def registration(self, host: str) -> int:
        """The zxid of the registration that the broker's present process made; -1: it has none, or it closes."""
        known = self._registered.get(host, _NONE)
        return known.zxid if known.life == self._lives.get(host) and host not in self._closing else -1

    def is_stale(self, host: str) -> bool:
        """Whether a broker is registered by a process that is down; it may run again."""
        return host in self._registered and self._registered[host].life != self._lives.get(host)

    def unregistered(self) -> Iterator[tuple[str, int]]:
        """Brokers whose present process has no registration, with its life."""
        for host in self.hosts:
            if self.runs(host) and self._registered.get(host, _NONE).life != self._lives[host]:
                yield host, self._lives[host]

    @property
    def registrations(self) -> tuple[int, ...]:
        """Of all brokers."""
        return tuple(map(self.zxid, self.hosts))

    def registered_us(self, host: str) -> int:
        """When the broker registered last."""
        return self._registered.get(host, _NONE).at_us

    def runs(self, host: str) -> bool:
        """Whether the broker's process is up and does not close."""
        return host in self._lives and host not in self._closing

    def restarted_us(self, host: str) -> int:
        """When the host's process began, unless it is the first."""
        return self._restarted_us.get(host, 0)

    def registered_before(self, host: str) -> bool:
        """Whether the broker registered when this controller was ready."""
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
            self.controller = ""  # its node stays until its session ends

    def _closes(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is ErrorCode.NONE:
            self._closing[broker_host(fact.broker_id)] = None

    # --- the store ---------------------------------------------------------------------------------------------

    def _session_opened(self, seen: Seen, fact: SessionOpened) -> None:
        self._sessions[host_of(fact.client)] = fact.session_id

    def _session_ended(self, seen: Seen, fact: SessionEnded) -> None:
        """A controller whose session ended controls nothing, though its node may stay for a while."""
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
            if not is_deleted:
                known = self.epoch if seen.at_us >= self.decides_from_us else -1  # else it may be among what it reads
                self._registered[host] = Registration(fact.zxid, self._lives.get(host, -1), known, seen.at_us)
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            topic = fact.path.rpartition("/")[2]
            self.deleting.pop(topic, None)
            if not is_deleted:
                self.deleting[topic] = None

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if host_of(seen.actor) == self.controller:
            self.decides_from_us = min(self.decides_from_us, seen.at_us)

    # --- replicas ----------------------------------------------------------------------------------------------

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self.unusable.update(dict.fromkeys((seen.actor, at) for at in fact.partitions))

    def _kept_out(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self.unusable[seen.actor, (fact.topic, fact.partition)] = None
        self.kept_out[seen.actor, (fact.topic, fact.partition)] = None

    def _takes_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        if self.unusable:
            self._usable((seen.actor, (fact.topic, fact.partition)))

    def _usable(self, key: tuple[str, TopicPartition]) -> None:
        self.unusable.pop(key, None)
        self.kept_out.pop(key, None)
