"""Duties of leaders, followers and producers (part of ``duties``).

A condition must end within its bound while its parties are undisturbed:

- fetch-stalled: a follower lacks records and receives none (socket timeout
  and one fetch).
- out-of-isr: a follower has every committed record and is not in the ISR.
- never-shrunk: a member of the ISR does not reach the end that the leader
  had when the member last had every record (1.5 times the lag).
- watermark-waits: all in-sync replicas have records above the high
  watermark (the lag).
- unanswered: producers get no answer for committed records (request
  timeout).

Source: Kafka 3.4 ``Partition``, ``AlterPartitionManager``,
``AbstractFetcherThread``, ``DelayedProduce``.
"""

from collections.abc import Iterator

from kemu.emulator.checkers.duty import ISR_US, ORDER_US, Duties, Duty
from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.protocol.config import ReplicaConfig
from kemu.protocol.dynamic_configs import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from kemu.protocol.names import STORE, TopicPartition, broker_host, host_of
from kemu.protocol.nodes import TOPIC_CONFIGS, PartitionState, ReplicaAssignment, read_config
from kemu.protocol.notes.groups import ProduceFailed, ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameLeader,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrChangeFailed,
    IsrProposed,
    NodeWritten,
)


class ReplicaDuties(Duties):
    """The duties of leaders, followers and producers."""

    def __init__(self, plane: ControlPlane, config: ReplicaConfig, bandwidth: int, request_us: int) -> None:
        super().__init__(plane)
        self._lag_us = config.replica_lag_time_max_ms * 1_000
        self._request_us = request_us
        self._socket_us = config.replica_socket_timeout_ms * 1_000
        fetch_us = config.replica_fetch_response_max_bytes * 1_000_000 // bandwidth if bandwidth else 0
        self._fetch_us = self._socket_us + ISR_US + fetch_us * 8
        self._watermarks: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        """(leader, partition) -> (high watermark, end of the log at the beginning of the leadership)."""
        self._proposed: dict[tuple[str, TopicPartition], tuple[int, ...]] = {}
        """(leader, partition) -> replicas for which the high watermark waits during an ISR change."""
        self._requested_us: dict[str, dict[TopicPartition, int]] = {}
        """Leader -> partition -> time of the unanswered ISR request, in us. Only one request is in flight, so an answer
        concerns one partition only."""
        self._answered_us: dict[str, int] = {}
        """Leader -> time of the answer to a request from before the newest controller was ready, in us."""
        self._marks: dict[tuple[str, TopicPartition], int] = {}
        """(follower, partition) -> the leader's log end when the follower last reached the former mark."""
        self._producers: dict[str, dict[str, None]] = {}
        """Topic -> hosts of producers that request answers."""
        self._undecided: dict[TopicPartition, tuple[str, int]] = {}
        """Partition -> (leader, end) of the first append since a producer's last answer."""
        self._appended_us: dict[TopicPartition, int] = {}
        """Partition -> time of the last append, in us."""
        self._throttled: dict[str, None] = {}
        """Topics with throttled replicas."""
        self.on = {
            RecordsAppended: self._appended,
            ProducerStarted: self._produces,
            RecordsAcknowledged: self._decided,
            ProduceFailed: self._decided,
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._led,
            IsrProposed: self._isr_proposed,
            IsrChanged: self._isr_changed,
            IsrChangeFailed: self._isr_refused,
            HostDown: self._went_down,
            NodeWritten: self._node_written,
        }

    def end_and_watermark(self, leader: str, at: TopicPartition) -> tuple[int, int]:
        """(end, high watermark) of a leader's log."""
        return self._end(leader, at), self._watermarks.get((leader, at), (0, 0))[0]

    def _end(self, host: str, at: TopicPartition) -> int:
        return self.panel.copies.on_host(host, at).log.end

    # --- facts -------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        self._appended_us[at] = seen.at_us
        if at not in self._undecided and fact.topic in self._producers:
            self._undecided[at] = (seen.actor, fact.base_offset + fact.count)

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks != 0:
            self._producers.setdefault(fact.topic, {})[host_of(seen.actor)] = None
            self._undecided = {at: each for at, each in self._undecided.items() if at[0] != fact.topic}

    def _decided(self, seen: Seen, fact: RecordsAcknowledged | ProduceFailed) -> None:
        self._undecided.pop((fact.topic, fact.partition), None)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._watermarks[key] = (fact.high_watermark, self._watermarks.get(key, (0, 0))[1])

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._watermarks[key] = (fact.high_watermark, fact.end_offset)
        self._proposed.pop(key, None)
        self._undecided.pop(key[1], None)  # producers learn the outcome from the former leader themselves

    def _isr_proposed(self, seen: Seen, fact: IsrProposed) -> None:
        self._proposed[seen.actor, (fact.topic, fact.partition)] = fact.counted
        self._requested_us.setdefault(seen.actor, {}).setdefault((fact.topic, fact.partition), seen.at_us)

    def _isr_changed(self, seen: Seen, fact: IsrChanged) -> None:
        at = (fact.topic, fact.partition)
        self._proposed.pop((seen.actor, at), None)
        if self._requested_us.get(seen.actor, {}).pop(at, self.plane.decides_from_us) < self.plane.decides_from_us:
            self._answered_us[seen.actor] = seen.at_us

    def _isr_refused(self, seen: Seen, fact: IsrChangeFailed) -> None:
        """Note a refusal. An earlier request may still be in flight. A request that was refused in its own step was
        never sent.
        """
        at, requested_us = (fact.topic, fact.partition), self._requested_us.get(seen.actor, {})
        self._proposed.pop((seen.actor, at), None)
        if requested_us.get(at) == seen.at_us:
            del requested_us[at]

    def _went_down(self, seen: Seen, fact: HostDown) -> None:
        self._requested_us.pop(fact.host, None)

    def _node_written(self, seen: Seen, fact: NodeWritten) -> None:
        if fact.path.startswith(f"{TOPIC_CONFIGS}/"):
            rows = read_config(fact.data) if fact.what != "deleted" else {}
            topic = fact.path.rpartition("/")[2]
            self._throttled.pop(topic, None)
            if LEADER_THROTTLED_REPLICAS in rows or FOLLOWER_THROTTLED_REPLICAS in rows:
                self._throttled[topic] = None

    # --- open duties -----------------------------------------------------------------------------------------------

    def owed(self) -> Iterator[Duty]:
        """The duties that are open now, in partitions with a leader."""
        panel, plane = self.panel, self.plane
        for at, state in panel.states.items():
            assignment, leader = panel.assigned.get(at), broker_host(state.leader)
            leads = panel.roles.get((leader, at)) == (state.leader_epoch, True) and (leader, at) not in plane.unusable
            if (
                assignment is not None
                and leads
                and at[0] not in plane.deleting
                and not self._is_complete(at, assignment, leader)
            ):
                yield from self._of_leader(at, state, assignment, leader)

    def _is_complete(self, at: TopicPartition, assignment: ReplicaAssignment, leader: str) -> bool:
        """Whether all replicas are in sync, have every record, and every record is committed: no duty is open."""
        end, watermark = self.end_and_watermark(leader, at)
        if watermark != end or at in self._undecided or (leader, at) in self._proposed:
            return False
        in_sync = self.panel.states[at].isr
        return all(broker in in_sync and self._end(broker_host(broker), at) == end for broker in assignment.replicas)

    def _of_leader(
        self, at: TopicPartition, state: PartitionState, assignment: ReplicaAssignment, leader: str
    ) -> Iterator[Duty]:
        """Yield duties: followers fetch and join the ISR, and the high watermark rises."""
        panel, plane, name = self.panel, self.plane, f"{at[0]}-{at[1]}"
        own, (watermark, epoch_start) = self._end(leader, at), self._watermarks.get((leader, at), (0, 0))
        proposed = self._proposed.get((leader, at), ())
        for broker in assignment.replicas:
            host = broker_host(broker)
            follows = broker != state.leader and panel.roles.get((host, at)) == (state.leader_epoch, False)
            if not follows or not plane.runs(host) or (host, at) in plane.unusable:
                continue
            end = self._end(host, at)
            if end < own and at[0] not in self._throttled:
                text = f"{host} has {name} up to {end} of {own}, follows {leader}, and receives no records"
                of = (state.leader_epoch, end)
                yield Duty("fetch-stalled", (name, host), (leader, host), of, self._fetch_us, text)
            if broker not in state.isr and end >= max(watermark, epoch_start):
                yield from self._joins(at, state, leader, host)
        yield from self._leaves(at, state, leader, own)
        by, undecided = self._undecided.get(at, ("", 0))
        if by == leader and undecided <= watermark and len(state.isr) >= panel.min_insync.of(at):
            text = f"{leader} has committed {name} up to {undecided}, and no producer got an answer"
            hosts = (leader, *self._producers[at[0]])
            yield Duty("unanswered", (name,), hosts, (state, undecided), self._request_us + ISR_US, text)
        counted = {*state.isr, *proposed} - {state.leader}
        least = min([own, *[self._end(broker_host(broker), at) for broker in counted]])
        unknown = panel.unknown_isrs.of(at)  # the leader waits for its known ISR (KAFKA-15583)
        known = unknown.believed_isr if unknown is not None and unknown.leader_waits else state.isr
        waits = self._waited_for(at, assignment, leader, watermark, least)
        if watermark < least and len(known) >= panel.min_insync.of(at) and not waits:
            text = f"{leader} has {watermark} as the high watermark of {name}; all in-sync replicas reach {least}"
            hosts = (leader, *map(broker_host, sorted(counted)))
            yield Duty("watermark-waits", (name,), hosts, (state, proposed, watermark), self._lag_us + ISR_US, text)

    def _waited_for(
        self, at: TopicPartition, assignment: ReplicaAssignment, leader: str, watermark: int, least: int
    ) -> bool:
        """Whether the leader last computed the high watermark while it waited for a replica that cannot fetch now.

        The leader waits for a replica that had every record within ``replica.lag.time.max.ms``. After that, the leader
        computes the high watermark only when a log end or the ISR changes. Source: ``Partition.maybeIncrementLeaderHW``
        (3.4.1).
        """
        appended_us, hit_since_us = self._appended_us.get(at, 0), self.panel.disturbances.hit_since_us
        return any(
            host != leader
            and watermark <= self._end(host, at) < least
            and (since_us := hit_since_us((leader, host))) is not None
            and appended_us <= since_us + self._lag_us
            for host in map(broker_host, assignment.replicas)
        )

    def _leaves(self, at: TopicPartition, state: PartitionState, leader: str, own: int) -> Iterator[Duty]:
        """Yield the duty to remove a lagging member from the ISR."""
        plane, name = self.plane, f"{at[0]}-{at[1]}"
        for host in [broker_host(broker) for broker in state.isr if broker != state.leader]:
            end, mark = self._end(host, at), min(self._marks.setdefault((host, at), own), own)
            if end >= mark:
                mark = self._marks[host, at] = own
            if end < mark and self._can_ask(at):
                text = f"{leader} keeps {host} in the ISR of {name}, at offset {end} and short of {mark}"
                parties, from_us = (STORE, plane.controller, leader), self._answered_from_us(leader)
                bound_us = self._lag_us * 3 // 2 + ORDER_US
                yield Duty("never-shrunk", (name, host), parties, (state, mark), bound_us, text, from_us)

    def _can_ask(self, at: TopicPartition) -> bool:
        """Whether a leader can change its ISR: a controller exists, and no refusal lasts."""
        unknown = self.panel.unknown_isrs.of(at)
        return bool(self.plane.controller) and (unknown is None or not unknown.leader_waits)

    def _answered_from_us(self, leader: str) -> int:
        """Time from which a leader must get answers, in us. A request to a former controller waits for the socket
        timeout.
        """
        plane = self.plane
        from_us = max(plane.decides_from_us, self._answered_us.get(leader, 0))
        requested_us = min(self._requested_us.get(leader, {}).values(), default=plane.decides_from_us)
        if requested_us >= plane.decides_from_us:
            return from_us
        return max(from_us, max(requested_us, plane.elected_us) + self._socket_us)

    def _joins(self, at: TopicPartition, state: PartitionState, leader: str, host: str) -> Iterator[Duty]:
        """Yield the duty to add a follower with every committed record to the ISR."""
        plane = self.plane
        if plane.registration(host) < 0 or not self._can_ask(at):
            return
        name, of = f"{at[0]}-{at[1]}", (state, plane.epoch, plane.registration(host), plane.registration(leader))
        text = f"{host} has every record of {name} that {leader} committed, but is not in the ISR {state.isr}"
        parties = (STORE, plane.controller, leader, host)
        restarted_us = plane.restarted_us(leader)  # a fetch from the leader's former process times out, too
        waits_us = restarted_us + self._socket_us if restarted_us else 0
        from_us = max(self._answered_from_us(leader), waits_us)
        yield Duty("out-of-isr", (name, host), parties, of, ISR_US, text, from_us)
