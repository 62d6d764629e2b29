"""Who controls a replicated cluster, and which broker processes it can count on.

Read from the store's writes and from the facts about hosts; a checker shows its facts to it (``Checker.shown_to``).
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, HostStarted, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition, broker_host, host_of
from kemu.protocol.nodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, DELETE_TOPICS
from kemu.protocol.notes.replication import (
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


class ControlPlane:
    """See the module."""

    def __init__(self) -> None:
        self.controller = ""
        """Host of the controller that the store has; "": none."""
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
        self._lives: dict[str, int] = {}
        self._registered: dict[str, tuple[int, int, int]] = {}
        """Host -> (zxid, life of the host, number of the controller, if it was ready) of its registration."""
        self._registered_us: dict[str, int] = {}
        self._restarted_us: dict[str, int] = {}
        self._closing: dict[str, None] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            HostStarted: self._started,
            HostDown: self._went_down,
            NodeWritten: self._written,
            SessionOpened: self._session_opened,
            SessionEnded: self._session_ended,
            ControllerReady: self._is_ready,
            ControlledShutdownAnswered: self._closes,
            LogDirFailed: self._dir_failed,
            LogOfAnotherTopic: self._kept_out,
        }

    def registration(self, host: str) -> int:
        """The zxid of the registration that the broker's present process made; -1: it has none, or it closes."""
        zxid, life, _ = self._registered.get(host, (-1, -1, 0))
        return zxid if life == self._lives.get(host) and host not in self._closing else -1

    def registered_us(self, host: str) -> int:
        """When the broker registered last."""
        return self._registered_us.get(host, 0)

    def runs(self, host: str) -> bool:
        """Whether the broker's process is up and does not close."""
        return host in self._lives and host not in self._closing

    def restarted_us(self, host: str) -> int:
        """When the host's process began, unless it is the first."""
        return self._restarted_us.get(host, 0)

    def registered_before(self, host: str) -> bool:
        """Whether the broker registered when this controller was ready."""
        return self._registered.get(host, (-1, -1, -1))[2] == self.epoch

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._lives[fact.host] = fact.life
        if fact.life > 1:
            self._restarted_us[fact.host] = seen.at_us
        self._closing.pop(fact.host, None)
        for key in [key for key in self.unusable if key[0] == fact.host]:
            del self.unusable[key]
            self.kept_out.pop(key, None)

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        self._lives.pop(fact.host, None)
        if fact.host == self.controller:
            self.controller = ""  # its node stays until its session ends

    def _session_opened(self, seen: Seen, fact: SessionOpened) -> None:
        self._sessions[host_of(fact.client)] = fact.session_id

    def _session_ended(self, seen: Seen, fact: SessionEnded) -> None:
        """A controller whose session ended controls nothing, though its node may stay for a while."""
        host = host_of(fact.client)
        if host == self.controller and self._sessions.get(host) == fact.session_id:
            self.controller = ""

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        deleted = fact.what == "deleted"
        if fact.path == CONTROLLER and deleted:
            self.controller = ""
        elif fact.path == CONTROLLER_EPOCH and fact.client and not deleted:
            self.controller, self.elected_us = host_of(fact.client), seen.at_us
            self.epoch += 1
            self.decides_from_us = seen.at_us + START_US
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            host = broker_host(int(fact.path.rpartition("/")[2]))
            if deleted:
                self._registered.pop(host, None)
            else:
                self._registered_us[host] = seen.at_us
                known = self.epoch if seen.at_us >= self.decides_from_us else -1  # else it may be among what it reads
                self._registered[host] = (fact.zxid, self._lives.get(host, -1), known)
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            topic = fact.path.rpartition("/")[2]
            if deleted:
                self.deleting.pop(topic, None)
            else:
                self.deleting[topic] = None

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if host_of(seen.actor) == self.controller:
            self.decides_from_us = min(self.decides_from_us, seen.at_us)

    def _closes(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is ErrorCode.NONE:
            self._closing[broker_host(fact.broker_id)] = None

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self.unusable.update(dict.fromkeys((seen.actor, at) for at in fact.partitions))

    def _kept_out(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self.unusable[seen.actor, (fact.topic, fact.partition)] = None
        self.kept_out[seen.actor, (fact.topic, fact.partition)] = None
