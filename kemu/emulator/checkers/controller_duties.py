"""Duties of the store, controllers and brokers: a controller, leaders,
obeyed orders (part of ``duties``).

A condition must end within its bound while its parties are undisturbed:

- session-kept, not-registered: registrations follow broker processes
  (session timeout).
- no-controller: no broker is the controller.
- no-leader: the broker named by the store does not lead, or no broker of
  the ISR is named.
- order-not-obeyed: a replica is not in the store's leader epoch.
- stale-metadata: a broker's metadata differs from the store.
- dead-in-isr: an ISR has an unregistered broker.
- former-leader: a broker leads by an election before its restart.
- step-kept: a reassignment's target is in sync.
- not-balanced: a preferred replica could be the leader and is not.
- left-over: a request stays in the store.

Never: a session ends before its timeout (session-cut); leaders move back to
preferred replicas twice within a check interval (moved-early).

Exempt: topics being deleted, replicas whose disk failed or has the log of
another topic (KIP-516), and partitions whose state the controller does not
know (``unknown_states``).

Source: Kafka 3.4 ``KafkaController``, ``ControllerChannelManager``,
``PartitionStateMachine``, ``ReplicaManager``.
"""

from collections.abc import Iterator, Sequence

from kemu.emulator.checkers.duty import ORDER_US, SETTLE_US, TICK_US, Duties, Duty
from kemu.emulator.checkers.reassignment import listed_in
from kemu.emulator.facts import FaultApplied, HostDown, HostPaused, HostResumed, HostStarted, Seen, WarmUpEnded
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import STORE, TopicPartition, broker_host, host_of
from kemu.protocol.nodes import (
    DELETE_TOPICS,
    ISR_CHANGES,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    PartitionState,
    ReplicaAssignment,
)
from kemu.protocol.notes.replication import MetadataCached, NodeWritten, SessionEnded, SessionOpened

DECIDED_US = 2_000_000
"""Longest time from a controller's write of a state without a leader, or from its notice of a broker that can lead, to
the election, in us."""
REQUESTS = (f"{DELETE_TOPICS}/", f"{ISR_CHANGES}/", PREFERRED_ELECTION, REASSIGN_PARTITIONS)
_NEVER_US = 1 << 62
Row = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""The metadata of a partition: (leader, leader epoch, ISR, replicas)."""


class ControllerDuties(Duties):
    """The duties of the store, controllers and brokers."""

    def __init__(self, plane: ControlPlane, config: ControllerConfig, create_us: int) -> None:
        super().__init__(plane, create_us)
        self._config = config
        self._session_us = config.zookeeper_session_timeout_ms * 1_000 + TICK_US
        self._caches: dict[str, dict[TopicPartition, Row]] = {}
        """Broker -> partition -> metadata that the broker sends to clients."""
        self._alive: dict[str, tuple[int, ...]] = {}
        """Broker -> live brokers in the broker's metadata."""
        self._elected: dict[TopicPartition, int] = {}
        """Partition -> zxid of the last election."""
        self._requests: dict[str, None] = {}
        """Paths of requests and announcements in the store."""
        self._targets: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition -> new replicas in the reassignment node that was used before KIP-455."""
        self._silent_us: dict[str, int] = {}
        """Host that is down or paused -> time of the end or the pause, in us."""
        self._check = (-1, 0)
        """(controller that moved leaders back to preferred replicas, time of its last check in us)."""
        self._lives: dict[int, int] = {}
        """Session -> life of the host that opened it."""
        self._asked_us = -_NEVER_US
        """Time of the last request for elections, in us."""
        self.on = {
            MetadataCached: self._cached,
            HostDown: self._went_down,
            HostPaused: self._paused,
            HostResumed: self._resumed,
            HostStarted: self._resumed,
            FaultApplied: self._applied,
            WarmUpEnded: self._warmed_up,
            SessionOpened: self._session_opened,
            SessionEnded: self._session_ended,
            NodeWritten: self._written,
        }

    # --- facts -------------------------------------------------------------------------------------------------

    def _cached(self, seen: Seen, fact: MetadataCached) -> None:
        self._alive[seen.actor] = tuple(sorted(fact.live_brokers))
        cache = self._caches.setdefault(seen.actor, {})
        for topic in fact.topics:
            for row in topic.partitions:
                cache[topic.topic, row.partition] = (row.leader, row.leader_epoch, row.isr, row.replicas)
        for at in fact.gone:
            cache.pop(at, None)

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        self._caches.pop(fact.host, None)
        self._alive.pop(fact.host, None)
        self._silent_us.setdefault(fact.host, seen.at_us)

    def _paused(self, seen: Seen, fact: HostPaused) -> None:
        self._silent_us.setdefault(fact.host, seen.at_us)

    def _resumed(self, seen: Seen, fact: HostResumed | HostStarted) -> None:
        self._silent_us.pop(fact.host, None)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind.startswith("elect"):
            self._asked_us = seen.at_us

    def _warmed_up(self, seen: Seen, fact: WarmUpEnded) -> None:
        """Forget the last check: hours have passed, and the next check is at a random point of its interval."""
        self._check = (-1, 0)

    def _session_opened(self, seen: Seen, fact: SessionOpened) -> None:
        self._lives[fact.session_id] = self.panel.hosts[host_of(fact.client)].life

    def _session_ended(self, seen: Seen, fact: SessionEnded) -> None:
        """Judge the end of a session. An idle client pings each third of its timeout, so its last ping may be a third
        of the timeout old.
        """
        host = host_of(fact.client)
        silent_us, free_us = self._silent_us.get(host), self.panel.disturbances.links_free_since_us((STORE, host))
        if fact.why != "expired" or silent_us is None or free_us is None or free_us >= silent_us:
            return
        life = self.panel.hosts[host].life
        if self._lives.get(fact.session_id, life) != life:
            return  # the former process became silent earlier
        for_us = seen.at_us - silent_us
        if for_us < (self._session_us - TICK_US) * 19 // 30:  # two thirds, less the time of a ping
            text = f"the store ends the session of {fact.client} {for_us / 1e6:g} s after {host} fell silent"
            self.violation(seen, "session-cut", (host,), text)

    def _judge_preferred(self, seen: Seen, at: TopicPartition) -> None:
        """Judge the time of a move back to the preferred replica. A request, or a closing or stopped leader, excuses
        the move.
        """
        before, assignment = self.panel.state_before, self.panel.assigned.get(at)
        asked = self._asked_us + SETTLE_US > seen.at_us or PREFERRED_ELECTION in self._requests
        if before is None or assignment is None or assignment.is_being_reassigned or asked:
            return
        preferred, plane = assignment.replicas[0], self.plane
        is_free = before.leader != preferred and plane.registration(broker_host(before.leader)) >= 0
        if (
            not is_free
            or self.panel.states[at].leader != preferred
            or set(before.isr) != set(self.panel.states[at].isr)
        ):
            return
        number, last_us = self._check
        interval_us = self._config.leader_imbalance_check_interval_seconds * 1_000_000
        for_us = seen.at_us - last_us if number == plane.epoch else _NEVER_US
        if for_us * 5 < interval_us:
            return  # both moves belong to one check
        self._check = (plane.epoch, seen.at_us)
        if for_us * 5 < interval_us * 4:
            name = f"{at[0]}-{at[1]}"
            text = f"{name} moves back to {broker_host(preferred)} {for_us / 1e6:g} s after others; the interval is"
            self.violation(seen, "moved-early", (name,), f"{text} {interval_us // 1_000_000} s")

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self.panel.written
        if at is not None and (self.panel.was_elected or self.panel.state_before is None):
            self._elected[at] = fact.zxid
            self._judge_preferred(seen, at)
        if fact.path.startswith(REQUESTS):
            self._requests.pop(fact.path, None)
            if fact.what != "deleted":
                self._requests[fact.path] = None
        if fact.path == REASSIGN_PARTITIONS:
            self._targets = {} if fact.what == "deleted" else listed_in(fact.data)

    # --- open duties -----------------------------------------------------------------------------------------------

    def owed(self) -> Iterator[Duty]:
        """The duties that are open now."""
        panel, plane = self.panel, self.plane
        yield from self._of_sessions()
        if not plane.controller:
            return
        yield from self._of_brokers()
        yield from self._of_requests()
        yield from self._of_balance()
        for at, assignment in panel.assigned.items():
            state = panel.states.get(at)
            if at[0] in plane.deleting:
                continue
            if state is None:
                yield from self._of_new(at, assignment)
                continue
            if panel.unknown_states.has(at):
                continue  # the controller sends no orders before another controller is elected
            yield from self._of_leadership(at, state)
            yield from self._of_state(at, state, assignment)
            yield from self._of_orders(at, state, assignment)

    def _of_sessions(self) -> Iterator[Duty]:
        """Yield duties about registrations, and about the existence of a controller."""
        panel, plane = self.panel, self.plane
        for host in map(broker_host, panel.registered):
            free_us = panel.disturbances.links_free_since_us((STORE, host))  # delayed packets renew the session
            if plane.is_stale(host) and free_us is not None:
                text = f"the store keeps the registration of {host}, whose process is down"
                yield Duty("session-kept", (host,), (STORE,), plane.zxid(host), self._session_us, text, free_us)
        for name, life in plane.unregistered():
            text = f"{name} runs and is not registered"
            yield Duty("not-registered", (name,), (STORE, name), life, self._session_us + SETTLE_US, text)
        able = [(STORE, host) for host in map(broker_host, panel.registered) if plane.registration(host) >= 0]
        if plane.is_vacant and able:
            yield Duty(
                "no-controller",
                ("controller",),
                self._longest_undisturbed(able),
                None,
                ORDER_US,
                "no broker is controller",
            )

    def _longest_undisturbed(self, sets: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """The set of hosts that has worked undisturbed for the longest time."""
        since_us = self.panel.disturbances.undisturbed_since_us
        return min(sets, key=lambda hosts: us if (us := since_us(hosts)) is not None else _NEVER_US)

    def _of_brokers(self) -> Iterator[Duty]:
        """Yield duties about the live brokers in brokers' metadata."""
        live = tuple(sorted(self.panel.registered))
        for host in map(broker_host, live):
            known = self._alive.get(host, ())
            if known != live and self.plane.registration(host) >= 0:
                text = f"{host} believes brokers {known} to be alive; the registered brokers are {live}"
                yield self.order("stale-metadata", (host,), host, (known, live), self.orders_us, text)

    def _awaits_replicas(self) -> bool:
        """Whether a partition of the reassignment node waits for new replicas to get in sync."""
        states = self.panel.states
        return any(at in states and not set(target) <= set(states[at].isr) for at, target in self._targets.items())

    def _of_requests(self) -> Iterator[Duty]:
        """Yield duties about requests in the store. A deletion waits for all brokers and for reassignments; a
        reassignment waits for its end.
        """
        panel, plane = self.panel, self.plane
        moving = [at[0] for at, assignment in panel.assigned.items() if assignment.is_being_reassigned]
        for path in self._requests:
            parties: tuple[str, ...] = (STORE, plane.controller)
            if path.startswith(DELETE_TOPICS):
                if path.rpartition("/")[2] in moving:
                    continue
                parties = (*parties, *plane.hosts)
            elif path == REASSIGN_PARTITIONS and (moving or self._awaits_replicas()):
                continue
            of = (plane.epoch, plane.registrations) if path.startswith(DELETE_TOPICS) else plane.epoch
            text = f"{path} remains in the store"
            yield Duty("left-over", (path,), parties, of, SETTLE_US, text, plane.decides_from_us)

    def _of_new(self, at: TopicPartition, assignment: ReplicaAssignment) -> Iterator[Duty]:
        """Yield duties about a created partition: the partition gets a state as soon as one replica is alive."""
        plane, name = self.plane, f"{at[0]}-{at[1]}"
        able = [host for host in map(broker_host, assignment.replicas) if plane.registration(host) >= 0]
        if able:
            parties, text = (STORE, plane.controller), f"{name} has no state in the store"
            of = (plane.epoch, tuple(able))
            yield Duty("no-leader", (name,), parties, of, self.orders_us, text, plane.decides_from_us)

    def _of_leadership(self, at: TopicPartition, state: PartitionState) -> Iterator[Duty]:
        """Yield duties about leadership: the store's leader leads. If this broker cannot lead, the controller chooses
        another broker of the ISR.
        """
        panel, plane, leader = self.panel, self.plane, broker_host(state.leader)
        is_live = state.leader in panel.registered
        is_named = is_live and (leader, at) not in plane.unusable
        epoch, leads = panel.roles.get((leader, at), (-1, False))
        if (is_named and leads and epoch >= state.leader_epoch) or (is_live and (leader, at) in plane.of_another_topic):
            return
        hosts = [leader] if is_named else list(map(broker_host, state.isr))
        hosts = [host for host in hosts if plane.registration(host) >= 0 and not panel.former.has(host, at)]
        able = [(STORE, plane.controller, host) for host in hosts if (host, at) not in plane.unusable]
        if not able:
            return
        parties, name = self._longest_undisturbed(able), f"{at[0]}-{at[1]}"
        bound_us, from_us = self.orders_us, plane.registered_us(parties[2])
        if state.leader == NO_LEADER:
            noticed_us = plane.noticed_us(parties[2])
            bound_us, from_us = DECIDED_US, from_us + ORDER_US if noticed_us is None else noticed_us
        from_us = max(plane.decides_from_us, from_us)
        of = (state.leader, state.leader_epoch, is_live, plane.zxid(leader))
        who = f"{leader}, which the store names," if is_named else " or ".join(hosts)
        text = f"{name} has no leader, though {who} could lead, and {plane.controller} is the controller"
        yield Duty("no-leader", (name,), parties, of, bound_us, text, from_us)

    def _of_state(self, at: TopicPartition, state: PartitionState, assignment: ReplicaAssignment) -> Iterator[Duty]:
        """Yield duties about a state: dead brokers leave the ISR, restarted leaders are elected again, and completed
        steps are committed.
        """
        panel, plane, name = self.panel, self.plane, f"{at[0]}-{at[1]}"
        parties = (STORE, plane.controller)
        of, from_us = (state, plane.epoch), plane.decides_from_us
        dead = [broker for broker in state.isr if broker not in panel.registered]
        if dead and len(dead) < len(state.isr):
            text = f"the ISR {state.isr} of {name} has unregistered {dead}; {plane.controller} is the controller"
            yield Duty("dead-in-isr", (name,), parties, (of, tuple(dead)), ORDER_US, text, from_us)
        leader = broker_host(state.leader)
        zxid = plane.registration(leader)
        if zxid > self._elected.get(at, zxid) and plane.registered_before(leader):
            text = f"{leader} leads {name} by an election before it registered; {plane.controller} is the controller"
            yield Duty("former-leader", (name, leader), (*parties, leader), (of, zxid), ORDER_US, text, from_us)
        if (assignment.adding or assignment.removing) and self._is_done(at, state, assignment):
            text = f"a step of {name} is not committed, though the ISR {state.isr} meets its target {assignment.target}"
            yield Duty("step-kept", (name,), parties, (of, assignment), SETTLE_US, text, from_us)

    def _is_done(self, at: TopicPartition, state: PartitionState, assignment: ReplicaAssignment) -> bool:
        """Whether a step of a reassignment can be committed."""
        final = assignment.target_replicas or assignment.target
        is_last = set(final) == set(assignment.target)
        left = [broker for broker in state.isr if broker not in assignment.removing]
        least = 1 if is_last else min(self.panel.min_insync.of(at), len(final))
        return len(left) >= least and set(final if is_last else assignment.adding) <= set(state.isr)

    def _of_orders(self, at: TopicPartition, state: PartitionState, assignment: ReplicaAssignment) -> Iterator[Duty]:
        """Yield duties of brokers: to obey the store's leader epochs, and to send the store's metadata to clients."""
        panel, plane, name = self.panel, self.plane, f"{at[0]}-{at[1]}"
        leader, stored = broker_host(state.leader), (state.leader, state.leader_epoch, state.isr, assignment.replicas)
        now = stored
        unknown = panel.unknown_isrs.of(at)
        if unknown is not None and unknown.controller_replaced_us is None:
            now = (*now[:2], unknown.believed_isr, assignment.replicas)
        for host in map(broker_host, panel.registered):
            known = self._caches.get(host, {}).get(at)
            # The controller may have read an ISR that it did not know, when a replica went offline.
            if known in (now, stored) or plane.registration(host) < 0:
                continue
            text = f"{host} sends clients {_in_words(known)} for {name}; the store has {_in_words(now)}"
            if known is None or known[:2] != now[:2]:
                yield self.order("stale-metadata", (name, host), host, now[:2], self.orders_us, text)
            elif plane.registration(leader) >= 0:
                of = (now, plane.registration(leader))
                duty = self.order("stale-metadata", (name, host), host, of, SETTLE_US, text)
                yield duty._replace(parties=(*duty.parties, leader))
        for host in map(broker_host, assignment.replicas) if state.leader in panel.registered else ():
            obeys = host == leader or panel.roles.get((host, at), (-1, False))[0] == state.leader_epoch
            if obeys or plane.registration(host) < 0 or (host, at) in plane.unusable or panel.former.has(host, at):
                continue
            text = f"{host} is not in leader epoch {state.leader_epoch} of {name}"
            yield self.order("order-not-obeyed", (name, host), host, now[:2], self.orders_us, text)

    def _of_balance(self) -> Iterator[Duty]:
        """Yield duties about balance: preferred replicas lead again at the next check, if other brokers lead too many
        of a broker's partitions.
        """
        config, panel, plane = self._config, self.panel, self.plane
        if not config.auto_leader_rebalance_enable:
            return
        preferred: dict[int, list[TopicPartition]] = {}
        for at, assignment in panel.assigned.items():
            if assignment.is_being_reassigned:
                return  # up to Kafka 3.3.2 controllers do not rebalance leaders during a reassignment (KAFKA-10149)
            if at in panel.states and at[0] not in plane.deleting and not panel.unknown_states.has(at):
                preferred.setdefault(assignment.replicas[0], []).append(at)
        bound_us = config.leader_imbalance_check_interval_seconds * 1_000_000 + SETTLE_US
        for broker, assigned in preferred.items():
            host = broker_host(broker)
            elsewhere = [at for at in assigned if panel.states[at].leader != broker]
            if len(elsewhere) * 100 <= config.leader_imbalance_per_broker_percentage * len(assigned):
                continue
            for at in elsewhere if plane.registration(host) >= 0 else ():
                if broker in panel.states[at].isr:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{host} is the preferred replica of {name} and in its ISR, but does not lead"
                    text += f"; others lead {len(elsewhere)} of its {len(assigned)} partitions"
                    yield self.order("not-balanced", (name, host), host, None, bound_us, text)


def _in_words(row: Row | None) -> str:
    if row is None:
        return "nothing"
    leader, epoch, isr, replicas = row
    return f"leader {leader} in epoch {epoch}, ISR {isr} of {replicas}"
