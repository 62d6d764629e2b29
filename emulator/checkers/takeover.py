"""A partition that can be led is led, and a cluster that can have a controller has one: during faults, too.

Each obligation has a bound. Its clock runs while the metadata store, the controller and the broker that could lead are
up, and while no fault hits them or the links between them.

================  ===============================================================================  ===================
kind              obligation                                                                       bound
================  ===============================================================================  ===================
session-kept      the store ends the session of a broker that is down                              session timeout
no-controller     a registered broker becomes controller when no broker is                         ``ELECTED_US``
no-leader         the controller elects a live member of the ISR when the leader is not            ``ELECTED_US``, and
                  registered; the broker that the store names leads                                the time to create
                                                                                                   all logs; once a new
                                                                                                   controller is ready
                  the controller elects one when it has written that there is no leader            ``DECIDED_US``
================  ===============================================================================  ===================

Exempt: partitions of a topic whose deletion is asked for, replicas in a failed log directory, and replicas that take
part in a deleted topic of the same name or hold its log (KIP-516).

Source: Kafka 3.4 ``KafkaController.onBrokerFailure``,
``PartitionStateMachine.triggerOnlinePartitionStateChange``, ``ReplicaManager.becomeLeaderOrFollower``.
"""

from collections.abc import Sequence
from typing import Any

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    BrokerHostAdded,
    FaultApplied,
    FaultEnded,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
)
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import STORE, TopicPartition, broker_host
from kemu.protocol.nodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH, DELETE_TOPICS, PartitionState
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    LogDirFailed,
    LogOfAnotherTopic,
    NodeWritten,
    ReplicaStopped,
)

DEFAULT_SESSION_US = ControllerConfig().zookeeper_session_timeout_ms * 1_000
ELECTED_US = 5_000_000
"""How long a controller may take to notice, decide, write and tell, with a queue of other work before it."""
DECIDED_US = 2_000_000
"""How long it may take to elect a leader once it has written that there is none."""
TICK_US = 3_000_000
"""How much later than its timeout the store may end a session."""
_NEVER_US = 1 << 62


class Takeover(Checker):
    """See the module.

    Args:
        session_us: ``zookeeper.session.timeout.ms`` of the brokers.
        create_us: how long a broker takes to create one log; a LeaderAndIsr may ask for all of them.
    """

    name = "takeover"

    def __init__(self, session_us: int = DEFAULT_SESSION_US, create_us: int = 0) -> None:
        super().__init__()
        self._session_us = session_us
        self._create_us = create_us
        self._plane = ControlPlane()
        self._none_since_us: int | None = None
        """Since when the store has no controller; None: it has one, or nobody was one yet."""
        self._leaderless: dict[TopicPartition, int] = {}
        """Partitions without a leader -> since when the present reason holds."""
        self._stale: dict[str, int] = {}
        """Brokers whose registration is of a process that is down -> since when. The broker may run again."""
        self._looks_us = _NEVER_US
        """When an obligation may be overdue."""
        self.every = self._time_passes
        self.on = {
            NodeWritten: self._written,
            BecameLeader: self._role_changed,
            BecameFollower: self._role_changed,
            ReplicaStopped: self._role_changed,
            LogDirFailed: self._dir_failed,
            LogOfAnotherTopic: self._kept_out,
            HostDown: self._went_down,
            HostStarted: self._started,
            HostPaused: self._disturbed,
            HostResumed: self._disturbed,
            FaultApplied: self._disturbed,
            FaultEnded: self._disturbed,
            BrokerHostAdded: self._disturbed,
        }
        self.shown_to(self._plane.on)

    # --- facts -------------------------------------------------------------------------------------------------

    def _disturbed(self, seen: Seen, fact: object) -> None:
        """Clocks stop or run again: look at all of them with the next fact."""
        self._looks_us = seen.at_us

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        if fact.host in self._registered():
            self._stale[fact.host] = seen.at_us
        for at in self.panel.led:
            self._look_at(seen, at)
        self._disturbed(seen, fact)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._disturbed(seen, fact)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        deleted = fact.what == "deleted"
        if self.panel.written is not None:
            self._look_at(seen, self.panel.written)
        elif fact.path == CONTROLLER and deleted:
            self._none_since_us = seen.at_us
        elif fact.path == CONTROLLER_EPOCH and fact.client and not deleted:
            self._none_since_us = None
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            host = broker_host(int(fact.path.rpartition("/")[2]))
            self._stale.pop(host, None)
            for at, state in self.panel.states.items():
                if broker_host(state.leader) == host:
                    self._leaderless.pop(at, None)
                    self._look_at(seen, at)
        elif not fact.path.startswith(f"{DELETE_TOPICS}/"):
            return
        self._disturbed(seen, fact)

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        for at in fact.partitions:
            self._excluded(seen, at)

    def _kept_out(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self._excluded(seen, (fact.topic, fact.partition))

    def _excluded(self, seen: Seen, at: TopicPartition) -> None:
        self._look_at(seen, at)

    def _role_changed(self, seen: Seen, fact: BecameLeader | BecameFollower | ReplicaStopped) -> None:
        self._look_at(seen, (fact.topic, fact.partition))

    def _look_at(self, seen: Seen, at: TopicPartition) -> None:
        """Whether a partition has the leader that the store names, as of this fact."""
        state = self.panel.states.get(at)
        if state is None or self._is_led(at, state):
            self._leaderless.pop(at, None)
        elif at not in self._leaderless or at == self.panel.written:
            self._leaderless[at] = seen.at_us
            self._looks_us = min(self._looks_us, seen.at_us + ELECTED_US)

    def _is_led(self, at: TopicPartition, state: PartitionState) -> bool:
        host = broker_host(state.leader)
        if state.leader not in self.panel.registered or (host, at) in self._plane.unusable:
            return False
        epoch, leads = self.panel.roles.get((host, at), (-1, False))
        return leads and epoch >= state.leader_epoch

    # --- judging -----------------------------------------------------------------------------------------------

    def _time_passes(self, seen: Seen, fact: Any) -> None:
        if seen.at_us < self._looks_us or type(fact) is NodeWritten:  # a write begins a new clock after this
            return
        due_us = [self._session_due_us(seen), self._controller_due_us(seen)]
        due_us += [self._leader_due_us(seen, at) for at in list(self._leaderless)]
        self._looks_us = min(due_us)

    def _session_due_us(self, seen: Seen) -> int:
        """Judge the sessions of brokers that are down; when to look next."""
        store_us, earliest_us = self.panel.disturbances.undisturbed_since_us((STORE,)), _NEVER_US
        for host, down_us in list(self._stale.items()) if store_us is not None else ():
            due_us = max(down_us, store_us or 0) + self._session_us + TICK_US
            if seen.at_us <= due_us:
                earliest_us = min(earliest_us, due_us + 1)
                continue
            del self._stale[host]
            text = f"{host} went down at {down_us / 1e6:g} s, and the store keeps its session"
            self.violation(seen, "session-kept", (host,), text, liveness=True)
        return earliest_us

    def _controller_due_us(self, seen: Seen) -> int:
        """Judge whether somebody became controller; when to look next."""
        if self._none_since_us is None:
            return _NEVER_US
        able_us = self._undisturbed_us([(STORE, host) for host in self._registered() if host not in self._stale])
        if able_us is None:
            return _NEVER_US
        due_us = max(self._none_since_us, able_us) + ELECTED_US
        if seen.at_us <= due_us:
            return due_us + 1
        text = f"no broker became controller within {ELECTED_US / 1e6:g} s"
        self.violation(seen, "no-controller", ("controller",), text, liveness=True)
        self._none_since_us = None
        return _NEVER_US

    def _leader_due_us(self, seen: Seen, at: TopicPartition) -> int:
        """Judge whether a partition is led; when to look next."""
        state = self.panel.states.get(at)
        plane = self._plane
        if state is None or not plane.controller or at[0] in plane.deleting:
            return _NEVER_US
        leader = broker_host(state.leader)
        if state.leader in self.panel.registered and (leader, at) in plane.kept_out:
            return _NEVER_US  # to its controller it leads; recovery names the log of another topic
        named = state.leader in self.panel.registered and (leader, at) not in plane.unusable
        able = [broker_host(broker) for broker in ((state.leader,) if named else state.isr)]
        hosts = [host for host in able if plane.registration(host) >= 0 and not self.panel.former.has(host, at)]
        hosts = [host for host in hosts if (host, at) not in plane.unusable]
        since_us = [(self._undisturbed_us([(STORE, plane.controller, host)]), host) for host in hosts]
        able_us = min([max(us, plane.registered_us(host)) for us, host in since_us if us is not None], default=None)
        if able_us is None:
            return _NEVER_US
        bound_us = ELECTED_US + self._create_us * len(self.panel.states)
        if state.leader == NO_LEADER:
            bound_us = DECIDED_US
        due_us = max(self._leaderless[at], able_us, plane.decides_from_us) + bound_us
        if seen.at_us <= due_us:
            return due_us + 1
        del self._leaderless[at]
        name = f"{at[0]}-{at[1]}"
        who = f"{hosts[0]}, which the store names," if named else " or ".join(hosts)
        text = f"nobody leads {name} for {bound_us / 1e6:g} s, though {who} could, and {plane.controller} controls"
        self.violation(seen, "no-leader", (name,), text, liveness=True)
        return _NEVER_US

    def _registered(self) -> list[str]:
        """Hosts of the brokers that the store has a registration of."""
        return [broker_host(broker) for broker in self.panel.registered]

    def _undisturbed_us(self, parties: Sequence[tuple[str, ...]]) -> int | None:
        """Since when one of these sets of hosts works undisturbed; None: none does."""
        since_us = [self.panel.disturbances.undisturbed_since_us(hosts) for hosts in parties]
        return min([each for each in since_us if each is not None], default=None)
