"""Duties of the store, controllers and brokers: there is a controller, partitions are led, orders are obeyed.

================  =================================================  ==================  ==========================
kind              what must end                                      parties             bound
================  =================================================  ==================  ==========================
session-kept      a broker is registered by a process that is down   store               session timeout
not-registered    a broker runs and is not registered                store, broker       the same, ``SETTLE_US``
no-controller     no broker is the controller                        store, a broker     ``ORDER_US``
no-leader         the broker that the store names does not lead;     controller, broker  ``ORDER_US``, log creation
                  nobody is named, though one in the ISR could be                        ``DECIDED_US``
order-not-obeyed  a replica is not in the store's leader epoch       controller, broker  ``ORDER_US``, log creation
stale-metadata    a cache has another leader or other live brokers   controller, broker  the same
                  or another ISR or other replicas                   the leader, too     ``SETTLE_US``
dead-in-isr       an ISR has a broker that is not registered         controller          ``ORDER_US``
former-leader     a broker leads by an election of its former life   controller          ``ORDER_US``
step-kept         a reassignment's target is in sync                 controller          ``SETTLE_US``
not-balanced      a preferred replica could lead and does not        controller, broker  check interval, ``SETTLE_US``
left-over         a request or an announcement is in the store       controller          ``SETTLE_US``
session-cut       never: a session ends before its timeout is over   store
moved-early       never: leaders go home at two checks in less       controller
                  than an interval
================  =================================================  ==================  ==========================

Nobody owes anything to a topic whose deletion is asked for, or is owed an order about a replica that its disk or a log
of another topic (KIP-516) keeps out.

Source: Kafka 3.4 ``KafkaController``, ``ControllerChannelManager``, ``PartitionStateMachine``, ``ReplicaManager``.
"""

from collections.abc import Iterator, Sequence

from kemu.emulator.checkers.duty import ORDER_US, SETTLE_US, TICK_US, Duties, Duty
from kemu.emulator.checkers.reassignment import listed_in
from kemu.emulator.facts import FaultApplied, HostDown, HostPaused, HostResumed, HostStarted, Seen
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
"""How long a controller may take to elect a leader once it has written that there is none."""
REQUESTS = (f"{DELETE_TOPICS}/", f"{ISR_CHANGES}/", PREFERRED_ELECTION, REASSIGN_PARTITIONS)
_NEVER_US = 1 << 62
Row = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Leader, leader epoch, ISR, replicas."""


class ControllerDuties(Duties):
    """See the module."""

    def __init__(self, plane: ControlPlane, config: ControllerConfig, create_us: int) -> None:
        super().__init__(plane, create_us)
        self._config = config
        self._session_us = config.zookeeper_session_timeout_ms * 1_000 + TICK_US
        self._caches: dict[str, dict[TopicPartition, Row]] = {}
        """The metadata that brokers give to clients."""
        self._alive: dict[str, tuple[int, ...]] = {}
        """Broker -> the live brokers, as it tells clients."""
        self._elected: dict[TopicPartition, int] = {}
        """The zxid of the last election."""
        self._requests: dict[str, None] = {}
        """Paths of requests and announcements in the store."""
        self._targets: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition -> its new replicas, by the node with which releases before KIP-455 move partitions."""
        self._silent_us: dict[str, int] = {}
        """Hosts that are down or paused -> since when."""
        self._check = (-1, 0)
        """Which controller moved leaders home, and when at a check it did so first."""
        self._lives: dict[int, int] = {}
        """Session -> the life of the host that opened it."""
        self._asked_us = -_NEVER_US
        """When somebody asked for elections."""
        self.on = {
            MetadataCached: self._cached,
            HostDown: self._went_down,
            HostPaused: self._stands_still,
            HostResumed: self._goes_on,
            HostStarted: self._goes_on,
            FaultApplied: self._applied,
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

    def _stands_still(self, seen: Seen, fact: HostPaused) -> None:
        self._silent_us.setdefault(fact.host, seen.at_us)

    def _goes_on(self, seen: Seen, fact: HostResumed | HostStarted) -> None:
        self._silent_us.pop(fact.host, None)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind.startswith("elect"):
            self._asked_us = seen.at_us

    def _session_opened(self, seen: Seen, fact: SessionOpened) -> None:
        self._lives[fact.session_id] = self.panel.hosts[host_of(fact.client)].life

    def _session_ended(self, seen: Seen, fact: SessionEnded) -> None:
        """A silent client pings each third of its timeout: so long before it went down it was heard."""
        host = host_of(fact.client)
        silent_us, free_us = self._silent_us.get(host), self.panel.disturbances.links_free_since_us((STORE, host))
        if fact.why != "expired" or silent_us is None or free_us is None or free_us >= silent_us:
            return
        life = self.panel.hosts[host].life
        if self._lives.get(fact.session_id, life) != life:
            return  # its process fell silent before
        for_us = seen.at_us - silent_us
        if for_us < (self._session_us - TICK_US) * 19 // 30:  # two thirds, less what a ping takes
            text = f"the store ends the session of {fact.client} {for_us / 1e6:g} s after {host} fell silent"
            self.violation(seen, "session-cut", (host,), text)

    def _goes_home(self, seen: Seen, at: TopicPartition) -> None:
        """Leaders are moved home at a check, unless somebody asked for it, or the former leader closes or is gone."""
        before, there = self.panel.state_before, self.panel.assigned.get(at)
        asked = self._asked_us + SETTLE_US > seen.at_us or PREFERRED_ELECTION in self._requests
        if before is None or there is None or there.is_being_reassigned or asked:
            return
        home, plane = there.replicas[0], self.plane
        is_free = before.leader != home and plane.registration(broker_host(before.leader)) >= 0
        if not is_free or self.panel.states[at].leader != home or set(before.isr) != set(self.panel.states[at].isr):
            return
        number, last_us = self._check
        interval_us = self._config.leader_imbalance_check_interval_seconds * 1_000_000
        for_us = seen.at_us - last_us if number == plane.epoch else _NEVER_US
        if for_us * 5 < interval_us:
            return  # of the same check
        self._check = (plane.epoch, seen.at_us)
        if for_us * 5 < interval_us * 4:
            name = f"{at[0]}-{at[1]}"
            text = f"{name} goes home to {broker_host(home)} {for_us / 1e6:g} s after others did; checks come each"
            self.violation(seen, "moved-early", (name,), f"{text} {interval_us // 1_000_000} s")

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self.panel.written
        if at is not None and (self.panel.was_elected or self.panel.state_before is None):
            self._elected[at] = fact.zxid
            self._goes_home(seen, at)
        if fact.path.startswith(REQUESTS):
            self._requests.pop(fact.path, None)
            if fact.what != "deleted":
                self._requests[fact.path] = None
        if fact.path == REASSIGN_PARTITIONS:
            self._targets = {} if fact.what == "deleted" else listed_in(fact.data)

    # --- what is owed ------------------------------------------------------------------------------------------

    def owed(self) -> Iterator[Duty]:
        """All that is owed now."""
        panel, plane = self.panel, self.plane
        yield from self._of_sessions()
        if not plane.controller:
            return
        yield from self._of_brokers()
        yield from self._of_requests()
        yield from self._of_balance()
        for at, there in panel.assigned.items():
            state = panel.states.get(at)
            if at[0] in plane.deleting:
                continue
            if state is None:
                yield from self._of_new(at, there)
                continue
            yield from self._of_leadership(at, state)
            yield from self._of_state(at, state, there)
            yield from self._of_orders(at, state, there)

    def _of_sessions(self) -> Iterator[Duty]:
        """Registrations go with their processes, and come with the next; somebody controls."""
        panel, plane = self.panel, self.plane
        for host in map(broker_host, panel.registered):
            free_us = panel.disturbances.links_free_since_us((STORE, host))  # what was kept back renews the session
            if plane.is_stale(host) and free_us is not None:
                text = f"the store keeps the registration of {host}, whose process is down"
                yield Duty("session-kept", (host,), (STORE,), plane.zxid(host), self._session_us, text, free_us)
        for name, life in plane.unregistered():
            text = f"{name} runs and is not registered"
            yield Duty("not-registered", (name,), (STORE, name), life, self._session_us + SETTLE_US, text)
        able = [(STORE, host) for host in map(broker_host, panel.registered) if plane.registration(host) >= 0]
        if plane.is_vacant and able:
            yield Duty("no-controller", ("controller",), self._ablest(able), None, ORDER_US, "no broker is controller")

    def _ablest(self, sets: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Those of these sets of hosts that have worked undisturbed the longest."""
        since_us = self.panel.disturbances.undisturbed_since_us
        return min(sets, key=lambda hosts: us if (us := since_us(hosts)) is not None else _NEVER_US)

    def _of_brokers(self) -> Iterator[Duty]:
        """Live brokers know who lives."""
        live = tuple(sorted(self.panel.registered))
        for host in map(broker_host, live):
            known = self._alive.get(host, ())
            if known != live and self.plane.registration(host) >= 0:
                text = f"{host} takes brokers {known} for alive; registered are {live}"
                yield self.order("stale-metadata", (host,), host, (known, live), self.orders_us, text)

    def _awaits_replicas(self) -> bool:
        """Whether a partition that is to move waits for its new replicas to get in sync."""
        states = self.panel.states
        return any(at in states and not set(target) <= set(states[at].isr) for at, target in self._targets.items())

    def _of_requests(self) -> Iterator[Duty]:
        """Requests are carried out; a deletion waits for all brokers and for reassignments, these for their ends."""
        panel, plane = self.panel, self.plane
        moving = [at[0] for at, there in panel.assigned.items() if there.is_being_reassigned]
        for path in self._requests:
            parties: tuple[str, ...] = (STORE, plane.controller)
            if path.startswith(DELETE_TOPICS):
                if path.rpartition("/")[2] in moving:
                    continue
                parties = (*parties, *plane.hosts)
            elif path == REASSIGN_PARTITIONS and (moving or self._awaits_replicas()):
                continue
            of = (plane.epoch, plane.registrations) if path.startswith(DELETE_TOPICS) else plane.epoch
            text = f"{path} is left over in the store"
            yield Duty("left-over", (path,), parties, of, SETTLE_US, text, plane.decides_from_us)

    def _of_new(self, at: TopicPartition, there: ReplicaAssignment) -> Iterator[Duty]:
        """A partition that an admin made gets a state as soon as a replica lives."""
        plane, name = self.plane, f"{at[0]}-{at[1]}"
        able = [host for host in map(broker_host, there.replicas) if plane.registration(host) >= 0]
        if able:
            parties, text = (STORE, plane.controller), f"{name} has no state in the store"
            of = (plane.epoch, tuple(able))
            yield Duty("no-leader", (name,), parties, of, self.orders_us, text, plane.decides_from_us)

    def _of_leadership(self, at: TopicPartition, state: PartitionState) -> Iterator[Duty]:
        """The broker that the store names leads; if it cannot, the controller names one of the ISR that can."""
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
        parties, name = self._ablest(able), f"{at[0]}-{at[1]}"
        bound_us = DECIDED_US if state.leader == NO_LEADER else self.orders_us
        from_us = max(plane.decides_from_us, plane.registered_us(parties[2]))
        of = (state.leader, state.leader_epoch, is_live, plane.zxid(leader))
        who = f"{leader}, which the store names," if is_named else " or ".join(hosts)
        text = f"nobody leads {name}, though {who} could, and {plane.controller} controls"
        yield Duty("no-leader", (name,), parties, of, bound_us, text, from_us)

    def _of_state(self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment) -> Iterator[Duty]:
        """Dead brokers leave the ISR, restarted leaders are elected anew, steps that can be committed are."""
        panel, plane, name = self.panel, self.plane, f"{at[0]}-{at[1]}"
        parties = (STORE, plane.controller)
        of, from_us = (state, plane.epoch), plane.decides_from_us
        dead = [broker for broker in state.isr if broker not in panel.registered]
        if dead and len(dead) < len(state.isr):
            text = f"the ISR {state.isr} of {name} has {dead}, not registered, and {plane.controller} controls"
            yield Duty("dead-in-isr", (name,), parties, (of, tuple(dead)), ORDER_US, text, from_us)
        leader = broker_host(state.leader)
        zxid = plane.registration(leader)
        if zxid > self._elected.get(at, zxid) and plane.registered_before(leader):
            text = f"{leader} leads {name} by an election of before it registered, and {plane.controller} controls"
            yield Duty("former-leader", (name, leader), (*parties, leader), (of, zxid), ORDER_US, text, from_us)
        if (there.adding or there.removing) and self._is_done(at, state, there):
            text = f"a step of {name} is not committed, though the ISR {state.isr} has what its {there.target} needs"
            yield Duty("step-kept", (name,), parties, (of, there), SETTLE_US, text, from_us)

    def _is_done(self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment) -> bool:
        """Whether a step of a reassignment can be committed."""
        final = there.target_replicas or there.target
        is_last = set(final) == set(there.target)
        left = [broker for broker in state.isr if broker not in there.removing]
        least = 1 if is_last else min(self.panel.min_insync.of(at), len(final))
        return len(left) >= least and set(final if is_last else there.adding) <= set(state.isr)

    def _of_orders(self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment) -> Iterator[Duty]:
        """Brokers follow whom the store names, and tell clients so."""
        panel, plane, name = self.panel, self.plane, f"{at[0]}-{at[1]}"
        leader, now = broker_host(state.leader), (state.leader, state.leader_epoch, state.isr, there.replicas)
        unknown = panel.unknown_isrs.of(at)
        if unknown is not None and unknown.controller_replaced_us is None:
            now = (*now[:2], unknown.believed_isr, there.replicas)
        for host in map(broker_host, panel.registered):
            known = self._caches.get(host, {}).get(at)
            if known == now or plane.registration(host) < 0:
                continue
            text = f"{host} tells clients of {name} {_told(known)}; the store has {_told(now)}"
            if known is None or known[:2] != now[:2]:
                yield self.order("stale-metadata", (name, host), host, now[:2], self.orders_us, text)
            elif plane.registration(leader) >= 0:
                of = (now, plane.registration(leader))
                duty = self.order("stale-metadata", (name, host), host, of, SETTLE_US, text)
                yield duty._replace(parties=(*duty.parties, leader))
        for host in map(broker_host, there.replicas) if state.leader in panel.registered else ():
            obeys = host == leader or panel.roles.get((host, at), (-1, False))[0] == state.leader_epoch
            if obeys or plane.registration(host) < 0 or (host, at) in plane.unusable or panel.former.has(host, at):
                continue
            text = f"{host} does not take part in leader epoch {state.leader_epoch} of {name}"
            yield self.order("order-not-obeyed", (name, host), host, now[:2], self.orders_us, text)

    def _of_balance(self) -> Iterator[Duty]:
        """Preferred replicas lead again at the next check, where others lead too many of a broker's partitions."""
        config, panel, plane = self._config, self.panel, self.plane
        if not config.auto_leader_rebalance_enable:
            return
        preferred: dict[int, list[TopicPartition]] = {}
        for at, there in panel.assigned.items():
            if there.is_being_reassigned:
                return  # to Kafka 3.3.2 no controller moves leaders back meanwhile (KAFKA-10149)
            if at in panel.states and at[0] not in plane.deleting:
                preferred.setdefault(there.replicas[0], []).append(at)
        bound_us = config.leader_imbalance_check_interval_seconds * 1_000_000 + SETTLE_US
        for broker, assigned in preferred.items():
            host = broker_host(broker)
            elsewhere = [at for at in assigned if panel.states[at].leader != broker]
            if len(elsewhere) * 100 <= config.leader_imbalance_per_broker_percentage * len(assigned):
                continue
            for at in elsewhere if plane.registration(host) >= 0 else ():
                if broker in panel.states[at].isr:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{host} is in the ISR of {name}, is its preferred replica and does not lead it"
                    text += f"; others lead {len(elsewhere)} of its {len(assigned)} partitions"
                    yield self.order("not-balanced", (name, host), host, None, bound_us, text)


def _told(row: Row | None) -> str:
    if row is None:
        return "nothing"
    leader, epoch, isr, replicas = row
    return f"leader {leader} in epoch {epoch}, ISR {isr} of {replicas}"
