"""What brokers and controllers owe each other in a replicated cluster, during faults, too.

A duty is a condition that its parties must end within a bound. Its clock runs while all parties run, no fault hits
them or the links between them, and nothing about the condition changes.

================  =================================================  ==================  ==========================
kind              what must end                                      parties             bound
================  =================================================  ==================  ==========================
order-not-obeyed  a replica is not in the store's leader epoch       controller, broker  ``ORDER_US``, log creation
stale-metadata    a cache has another leader or other live brokers   controller, broker  the same
replica-kept      a broker has the log of a replica it lost          controller, broker  the same
dead-in-isr       an ISR has a broker that is not registered         controller          ``ORDER_US``
former-leader     a broker leads by an election of its former life   controller          ``ORDER_US``
step-kept         a reassignment's target is in sync                 controller          ``STEP_US``
not-balanced      a preferred replica could lead and does not        controller, broker  check interval, ``STEP_US``
fetch-stalled     a follower lacks records and gets none             leader, follower    socket timeout, one fetch
out-of-isr        a follower has all that is committed               all of them         ``ISR_US``; requests to former
                                                                                         processes time out before
never-shrunk      a member of an ISR does not reach what was at   controller, leader  1.5 times the lag,
                  the leader's end when it last had all                                  ``ORDER_US``
watermark-waits   all in sync have records above the high watermark  leader, followers   lag, ``ISR_US``
unanswered        a producer hears nothing of what is committed      leader, producers   request timeout, ``ISR_US``
================  =================================================  ==================  ==========================

Source: Kafka 3.4 ``KafkaController``, ``ControllerChannelManager``, ``Partition``, ``AbstractFetcherThread``.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.protocol.config import ControllerConfig, ReplicaConfig
from kemu.protocol.dynamic_configs import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from kemu.protocol.names import STORE, TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.nodes import TOPIC_CONFIGS, PartitionState, ReplicaAssignment, read_config
from kemu.protocol.notes.groups import ProduceFailed, ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrChangeFailed,
    IsrProposed,
    MetadataCached,
    NodeWritten,
    RecordsReplicated,
    ReplicaStopped,
    Truncated,
)

LOOK_US = 1_000_000
"""How often conditions are looked at."""
ORDER_US = 5_000_000
"""How long a controller may take to notice, decide, write and tell, with a queue of other work before it."""
STEP_US = 15_000_000
"""How long it may take to hear of an ISR that its leader wrote to the store itself, and to act on it."""
ISR_US = 10_000_000
"""How long a leader may take to have its ISR changed."""
_NEVER_US = 1 << 62


class Duty(NamedTuple):
    """A condition that must end.

    Args:
        kind: of ``KINDS``.
        about: the entities.
        parties: hosts that must be undisturbed.
        state: while it stays equal, nothing changes.
        bound_us: how long it may last.
        text: what is wrong.
        not_before_us: the clock does not run before this time.
    """

    kind: str
    about: tuple[str, ...]
    parties: tuple[str, ...]
    state: object
    bound_us: int
    text: str
    not_before_us: int = 0


class ReplicationDuties(Checker):
    """See the module.

    Args:
        controllers: settings of the controller parts.
        replicas: settings of the brokers.
        bandwidth: bytes a second of the slowest broker; 0: no limit.
        request_us: ``request.timeout.ms`` of the producers: a request is answered when all its partitions can be.
    """

    name = "duties"

    def __init__(
        self,
        controllers: ControllerConfig | None = None,
        replicas: ReplicaConfig | None = None,
        bandwidth: int = 0,
        request_us: int = 30_000_000,
    ) -> None:
        super().__init__()
        self._controllers = controllers or ControllerConfig()
        config = self._replicas = replicas or ReplicaConfig()
        self._lag_us = config.replica_lag_time_max_ms * 1_000
        self._request_us = request_us
        self._socket_us = config.replica_socket_timeout_ms * 1_000
        fetch_us = config.replica_fetch_response_max_bytes * 1_000_000 // bandwidth if bandwidth else 0
        self._fetch_us = self._socket_us + ISR_US + fetch_us * 8
        self._plane = ControlPlane()
        self._unmet: dict[tuple[str, tuple[str, ...]], tuple[object, int]] = {}
        """Kind and entities -> what the condition was like, and since when it has been so."""
        self._ends: dict[tuple[str, TopicPartition], int] = {}
        """(host, partition) of replicas and of logs that were not deleted -> the log's end."""
        self._watermarks: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        """(leader, partition) -> its high watermark, and where its log ended when it became leader."""
        self._proposed: dict[tuple[str, TopicPartition], tuple[int, ...]] = {}
        """(leader, partition) -> who counts for the high watermark while a change of the ISR is under way."""
        self._asked_us: dict[str, int] = {}
        """Leader -> since when it has had no answer to a change of an ISR; at least since the newest controller."""
        self._answered_us: dict[str, int] = {}
        """Leader -> when it had the answer to what it had asked before the newest controller was ready."""
        self._caches: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """Broker -> partition -> (leader, leader epoch), as it tells clients."""
        self._alive: dict[str, tuple[int, ...]] = {}
        """Broker -> the live brokers, as it tells clients."""
        self._removed: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        """Replicas that a broker has no more -> the controller's number and the broker's registration then."""
        self._written: dict[TopicPartition, int] = {}
        """The zxid of the last election."""
        self._marks: dict[tuple[str, TopicPartition], int] = {}
        """(follower, partition) -> the leader's end when the follower last had everything up to the mark before."""
        self._producers: dict[str, dict[str, None]] = {}
        """Topic -> hosts of the producers that want answers."""
        self._undecided: dict[TopicPartition, tuple[str, int]] = {}
        """(leader, end) of the first append since a producer last heard what became of one."""
        self._throttled: dict[str, None] = {}
        """Topics with throttled replicas."""
        self._looks_us = 0
        self.every = self._time_passes
        self.on = {
            RecordsAppended: self._appended,
            RecordsReplicated: self._grew,
            ProducerStarted: self._produces,
            RecordsAcknowledged: self._decided,
            ProduceFailed: self._decided,
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._led,
            BecameFollower: self._followed,
            Truncated: self._truncated,
            ReplicaStopped: self._stopped,
            IsrProposed: self._isr_proposed,
            IsrChanged: self._isr_changed,
            IsrChangeFailed: self._isr_refused,
            MetadataCached: self._cached,
            HostDown: self._went_down,
            NodeWritten: self._node_written,
        }
        self.shown_to(self._plane.on)

    # --- facts -------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        self._grew(seen, fact)
        at = (fact.topic, fact.partition)
        if at not in self._undecided and fact.topic in self._producers:
            self._undecided[at] = (seen.actor, fact.base_offset + fact.count)

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks != 0:
            self._producers.setdefault(fact.topic, {})[host_of(seen.actor)] = None
            self._undecided = {at: each for at, each in self._undecided.items() if at[0] != fact.topic}

    def _decided(self, seen: Seen, fact: RecordsAcknowledged | ProduceFailed) -> None:
        self._undecided.pop((fact.topic, fact.partition), None)

    def _grew(self, seen: Seen, fact: RecordsAppended | RecordsReplicated) -> None:
        self._ends[seen.actor, (fact.topic, fact.partition)] = fact.base_offset + fact.count

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._watermarks[key] = (fact.high_watermark, self._watermarks.get(key, (0, 0))[1])

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._ends[key] = fact.end_offset
        self._watermarks[key] = (fact.high_watermark, fact.end_offset)
        self._proposed.pop(key, None)
        self._undecided.pop(key[1], None)  # producers learn by themselves what its former leader did

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        self._ends[seen.actor, (fact.topic, fact.partition)] = fact.end_offset

    def _truncated(self, seen: Seen, fact: Truncated) -> None:
        self._ends[seen.actor, (fact.topic, fact.partition)] = fact.end_offset

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            self._removed.pop((seen.actor, (fact.topic, fact.partition)), None)
            self._ends.pop((seen.actor, (fact.topic, fact.partition)), None)

    def _isr_proposed(self, seen: Seen, fact: IsrProposed) -> None:
        self._proposed[seen.actor, (fact.topic, fact.partition)] = fact.counted
        self._asked_us.setdefault(seen.actor, seen.at_us)

    def _isr_changed(self, seen: Seen, fact: IsrChanged) -> None:
        self._proposed.pop((seen.actor, (fact.topic, fact.partition)), None)
        if self._asked_us.pop(seen.actor, self._plane.decides_from_us) < self._plane.decides_from_us:
            self._answered_us[seen.actor] = seen.at_us

    def _isr_refused(self, seen: Seen, fact: IsrChangeFailed) -> None:
        """The one before it may still be under way."""
        self._proposed.pop((seen.actor, (fact.topic, fact.partition)), None)

    def _cached(self, seen: Seen, fact: MetadataCached) -> None:
        self._alive[seen.actor] = fact.live_brokers
        cache = self._caches.setdefault(seen.actor, {})
        for topic in fact.topics:
            for row in topic.partitions:
                cache[topic.topic, row.partition] = (row.leader, row.leader_epoch)
        for at in fact.gone:
            cache.pop(at, None)

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        self._caches.pop(fact.host, None)
        self._alive.pop(fact.host, None)
        self._asked_us.pop(fact.host, None)
        self._removed = {key: each for key, each in self._removed.items() if key[0] != fact.host}

    def _node_written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self.panel.written
        if at is not None and (self.panel.was_elected or self.panel.state_before is None):
            self._written[at] = fact.zxid
        for at, before in self.panel.replicas_changed.items():
            there = self.panel.assigned[at].replicas
            for host in [host for host, which in self._ends if which == at]:
                if broker_of(host) in there:
                    self._removed.pop((host, at), None)
                    continue
                deletes = broker_of(host) in before and host_of(fact.client) == self._plane.controller
                if deletes and self._plane.registration(host) >= 0:
                    self._removed.setdefault((host, at), (self._plane.epoch, self._plane.registration(host)))
        if fact.path.startswith(f"{TOPIC_CONFIGS}/"):
            rows = read_config(fact.data) if fact.what != "deleted" else {}
            topic = fact.path.rpartition("/")[2]
            self._throttled.pop(topic, None)
            if LEADER_THROTTLED_REPLICAS in rows or FOLLOWER_THROTTLED_REPLICAS in rows:
                self._throttled[topic] = None

    # --- judging -----------------------------------------------------------------------------------------------

    def _time_passes(self, seen: Seen, fact: Any) -> None:
        if seen.at_us >= self._looks_us:
            self._looks_us = seen.at_us + LOOK_US
            if self.panel.states:
                self._look(seen)

    def finish(self, at_us: int) -> None:
        """Look for the last time."""
        if self.panel.states and self.panel.now is not None and self.every is not None:
            self._look(self.panel.now._replace(at_us=at_us))

    def _look(self, seen: Seen) -> None:
        """Judge what is as it was for longer than its bound."""
        before, self._unmet = self._unmet, {}
        for duty in self._owed():
            key = (duty.kind, duty.about)
            state, since_us = before.get(key, (None, seen.at_us))
            if state != duty.state:
                since_us = seen.at_us
            able_us = self.panel.disturbances.undisturbed_since_us(duty.parties)
            if able_us is not None:
                for_us = seen.at_us - max(since_us, able_us, duty.not_before_us)
                if for_us > duty.bound_us:
                    self.violation(seen, *duty[:2], f"{duty.text}, for {for_us // 1_000_000} s", liveness=True)
                    since_us = _NEVER_US
            self._unmet[key] = (duty.state, since_us)

    def _owed(self) -> Iterator[Duty]:
        panel, plane = self.panel, self._plane
        orders_us = ORDER_US + self._replicas.emulated_log_create_us * len(panel.states)
        decides = bool(plane.controller)
        if decides:
            yield from self._of_brokers(orders_us)
            yield from self._of_removed(orders_us)
            yield from self._of_balance()
        for at, state in panel.states.items():
            assignment = panel.assigned.get(at)
            if assignment is None or at[0] in plane.deleting:
                continue
            if decides:
                yield from self._of_controller(at, state, assignment)
                yield from self._of_orders(at, state, assignment, orders_us)
            leader = broker_host(state.leader)
            if panel.roles.get((leader, at)) == (state.leader_epoch, True) and (leader, at) not in plane.unusable:
                yield from self._of_leader(at, state, assignment, leader)

    # --- controllers -------------------------------------------------------------------------------------------

    def _of_brokers(self, bound_us: int) -> Iterator[Duty]:
        """Live brokers know who lives."""
        live = sorted(self.panel.registered)
        for host in map(broker_host, live):
            known = self._alive.get(host, ())
            if sorted(known) != live and self._plane.registration(host) >= 0:
                text = f"{host} takes brokers {sorted(known)} for alive; registered are {live}"
                yield self._order("stale-metadata", (host,), host, (known, tuple(live)), bound_us, text)

    def _order(self, kind: str, about: tuple[str, ...], host: str, state: object, bound_us: int, text: str) -> Duty:
        """What the controller must tell a broker."""
        plane = self._plane
        parties = (STORE, plane.controller, host)
        of = (state, plane.epoch, plane.registration(host))
        return Duty(kind, about, parties, of, bound_us, text, plane.decides_from_us)

    def _of_removed(self, bound_us: int) -> Iterator[Duty]:
        """A broker that lost a replica stops it, as long as its controller and its registration are the same."""
        for (host, at), then in list(self._removed.items()):
            if then != (self._plane.epoch, self._plane.registration(host)):
                del self._removed[host, at]
                continue
            name = f"{at[0]}-{at[1]}"
            text = f"{host} keeps its log of {name}, of which it has no replica any more"
            yield self._order("replica-kept", (name, host), host, None, bound_us, text)

    def _of_controller(self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment) -> Iterator[Duty]:
        """Who is dead leaves the ISR, who was dead leads anew, a step that can be committed is."""
        panel, plane, name = self.panel, self._plane, f"{at[0]}-{at[1]}"
        parties = (STORE, plane.controller)
        of, from_us = (state, plane.epoch), plane.decides_from_us
        dead = [broker for broker in state.isr if broker not in panel.registered]
        if dead and len(dead) < len(state.isr):
            text = f"the ISR {state.isr} of {name} has {dead}, not registered, and {plane.controller} controls"
            state_now = (of, tuple(dead))
            yield Duty("dead-in-isr", (name,), parties, state_now, ORDER_US, text, from_us)
        leader = broker_host(state.leader)
        zxid = plane.registration(leader)
        if zxid > self._written.get(at, zxid) and plane.registered_before(leader):
            text = f"{leader} leads {name} by an election of before it registered, and {plane.controller} controls"
            yield Duty("former-leader", (name, leader), (*parties, leader), (of, zxid), ORDER_US, text, from_us)
        if (there.adding or there.removing) and self._is_done(at, state, there):
            text = f"a step of {name} is not committed, though the ISR {state.isr} has what its {there.target} needs"
            yield Duty("step-kept", (name,), parties, (of, there), STEP_US, text, from_us)

    def _is_done(self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment) -> bool:
        """Whether a step of a reassignment can be committed."""
        final = there.target_replicas or there.target
        is_last = set(final) == set(there.target)
        left = [broker for broker in state.isr if broker not in there.removing]
        least = 1 if is_last else min(self.panel.min_insync.of(at), len(final))
        return len(left) >= least and set(final if is_last else there.adding) <= set(state.isr)

    def _of_orders(
        self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment, bound_us: int
    ) -> Iterator[Duty]:
        """Brokers follow whom the store names, and tell clients so."""
        panel, plane, name = self.panel, self._plane, f"{at[0]}-{at[1]}"
        now = (state.leader, state.leader_epoch)
        for host in map(broker_host, panel.registered):
            known = self._caches.get(host, {}).get(at)
            if known != now and plane.registration(host) >= 0:
                text = f"{host} tells clients of {name} {known}; leader and epoch are {now}"
                yield self._order("stale-metadata", (name, host), host, now, bound_us, text)
        for broker in there.replicas if state.leader in panel.registered else ():
            host = broker_host(broker)
            if panel.roles.get((host, at), (-1, False))[0] == state.leader_epoch or plane.registration(host) < 0:
                continue
            if (host, at) not in plane.unusable and not panel.former.has(host, at):
                text = f"{host} does not take part in leader epoch {state.leader_epoch} of {name}"
                yield self._order("order-not-obeyed", (name, host), host, now, bound_us, text)

    def _of_balance(self) -> Iterator[Duty]:
        """Preferred replicas lead again at the next check, where others lead too many of a broker's partitions."""
        config, panel, plane = self._controllers, self.panel, self._plane
        if not config.auto_leader_rebalance_enable:
            return
        preferred: dict[int, list[TopicPartition]] = {}
        for at, there in panel.assigned.items():
            if there.is_being_reassigned:
                return  # to Kafka 3.3.2 no controller moves leaders back meanwhile (KAFKA-10149)
            if at in panel.states and at[0] not in plane.deleting:
                preferred.setdefault(there.replicas[0], []).append(at)
        bound_us = config.leader_imbalance_check_interval_seconds * 1_000_000 + STEP_US
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
                    yield self._order("not-balanced", (name, host), host, None, bound_us, text)

    # --- leaders and followers ---------------------------------------------------------------------------------

    def _of_leader(
        self, at: TopicPartition, state: PartitionState, there: ReplicaAssignment, leader: str
    ) -> Iterator[Duty]:
        """Followers fetch, get into the ISR, and the high watermark rises."""
        panel, plane, name, ends = self.panel, self._plane, f"{at[0]}-{at[1]}", self._ends
        own, (watermark, epoch_start) = ends.get((leader, at), 0), self._watermarks.get((leader, at), (0, 0))
        proposed = self._proposed.get((leader, at), ())
        for broker in there.replicas:
            host = broker_host(broker)
            follows = broker != state.leader and panel.roles.get((host, at)) == (state.leader_epoch, False)
            if not follows or not plane.runs(host) or (host, at) in plane.unusable:
                continue
            end = ends.get((host, at), 0)
            if end < own and at[0] not in self._throttled:
                text = f"{host} has {name} up to {end} of {own}, follows {leader}, and gets nothing"
                of = (state.leader_epoch, end)
                yield Duty("fetch-stalled", (name, host), (leader, host), of, self._fetch_us, text)
            if broker not in state.isr and end >= max(watermark, epoch_start):
                yield from self._joins(at, state, leader, host)
        yield from self._leaves(at, state, leader, own)
        by, undecided = self._undecided.get(at, ("", 0))
        if by == leader and undecided <= watermark and len(state.isr) >= panel.min_insync.of(at):
            text = f"{leader} has committed {name} up to {undecided}, and no producer has heard of it"
            hosts = (leader, *self._producers[at[0]])
            yield Duty("unanswered", (name,), hosts, (state, undecided), self._request_us + ISR_US, text)
        counted = {*state.isr, *proposed} - {state.leader}
        least = min([own, *[ends.get((broker_host(broker), at), 0) for broker in counted]])
        unheard = panel.unheard.of(at)  # its leader counts the ISR that it knows (KAFKA-15583)
        known = unheard.told if unheard is not None and unheard.leader_waits else state.isr
        if watermark < least and len(known) >= panel.min_insync.of(at):
            text = f"{leader} has {watermark} as the high watermark of {name}; all in sync have records to {least}"
            hosts = (leader, *map(broker_host, sorted(counted)))
            yield Duty("watermark-waits", (name,), hosts, (state, proposed, watermark), self._lag_us + ISR_US, text)

    def _leaves(self, at: TopicPartition, state: PartitionState, leader: str, own: int) -> Iterator[Duty]:
        """A member that lags leaves the ISR."""
        plane, name = self._plane, f"{at[0]}-{at[1]}"
        for host in [broker_host(broker) for broker in state.isr if broker != state.leader]:
            end, mark = self._ends.get((host, at), 0), min(self._marks.setdefault((host, at), own), own)
            if end >= mark:
                mark = self._marks[host, at] = own
            if end < mark and self._can_ask(at):
                text = f"{leader} keeps {host} in the ISR of {name}, which has not reached {mark}, but {end}"
                parties, from_us = (STORE, plane.controller, leader), self._answered_from_us(leader)
                bound_us = self._lag_us * 3 // 2 + ORDER_US
                yield Duty("never-shrunk", (name, host), parties, (state, mark), bound_us, text, from_us)

    def _can_ask(self, at: TopicPartition) -> bool:
        """Whether a leader can have an ISR changed: there is a controller, and no refusal that lasts."""
        unheard = self.panel.unheard.of(at)
        return bool(self._plane.controller) and (unheard is None or not unheard.leader_waits)

    def _answered_from_us(self, leader: str) -> int:
        """From when on a leader must get answers: a request to a former controller waits until its socket times out."""
        plane = self._plane
        from_us = max(plane.decides_from_us, self._answered_us.get(leader, 0))
        asked_us = self._asked_us.get(leader, plane.decides_from_us)
        if asked_us >= plane.decides_from_us:
            return from_us
        return max(from_us, max(asked_us, plane.elected_us) + self._socket_us)

    def _joins(self, at: TopicPartition, state: PartitionState, leader: str, host: str) -> Iterator[Duty]:
        """A follower that has all that is committed gets into the ISR."""
        plane = self._plane
        if plane.registration(host) < 0 or not self._can_ask(at):
            return
        name, of = f"{at[0]}-{at[1]}", (state, plane.epoch, plane.registration(host), plane.registration(leader))
        text = f"{host} has all of {name} that {leader} has committed, and stays out of the ISR {state.isr}"
        parties = (STORE, plane.controller, leader, host)
        restarted_us = plane.restarted_us(leader)  # a fetch that waits for its former process times out, too
        waits_us = restarted_us + self._socket_us if restarted_us else 0
        from_us = max(self._answered_from_us(leader), waits_us)
        yield Duty("out-of-isr", (name, host), parties, of, ISR_US, text, from_us)
