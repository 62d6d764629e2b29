"""The emulator's course: one run of a plan's scenario, observed in the same way as the recordings.

A response is counted when a broker sends the response, as in kafka.request.logger. Members are identified by their
hosts, whose names equal the clients in the recordings (c1, c2, ...).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen
from kemu.emulator.runner import Run
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.rows import SEND
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow
from kemu.emulator.watching.panel import Panel
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeatReply
from kemu.protocol.messages.group import JoinGroupReply, SyncGroup
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes.consumer_groups import GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    JoinPhaseCompleted,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.protocol.wire.codec import unseal
from kemu.protocol.wire.schema import SPECS, Kind
from lab.conformance.course import Course, ExchangesSeen, HeldPartitions, RebalanceSeen
from lab.conformance.recordings import APIS, without_uuids

COUNTED = frozenset(APIS.values())


def emulate(scenario: Scenario, *, seed: int, profile: str, until_ms: int) -> Course:
    """The course of the scenario's first group with this seed, until the end of the compared recording.

    Raises:
        ScenarioError: a machine refuses the configuration.
    """
    panel, group = Panel(), next(iter(scenario.groups))
    watcher, answers = CourseWatcher(panel, group, until_ms), AnswersToMembers(panel, group, until_ms)
    one = Run(
        scenario,
        seed=seed,
        profile=profile,
        loop="bare",
        panel=panel,
        observers=(watcher,),
        recorder=answers,
    )
    broke = one.run_with(run_plain)
    verdict = one.judging.finish(one.world.now_us, broke).verdict
    return Course(
        plan=scenario.name,
        until_ms=until_ms,
        rebalances=watcher.rebalances(answers.brought_ms, answers.client_of),
        downtime_ms=watcher.held.spans_ms(until_ms),
        errors=dict(sorted(answers.errors.items())),
        requests=dict(sorted(answers.requests.items())),
        verdict=verdict,
        hand_overs_ms=tuple(answers.hand_overs_ms),
        exchanges=answers.exchanges.all(),
    )


class CourseWatcher:
    """Observes the rebalances of one group, and the owners of partitions."""

    def __init__(self, panel: Panel, group: str, until_ms: int) -> None:
        self.held = HeldPartitions()
        self._group = group
        self._panel = panel
        self._until_ms = until_ms
        self._seen: list[RebalanceSeen] = []
        self._began: tuple[int, str] | None = None
        self._owners: dict[int, dict[str, dict[str, tuple[int, ...]]]] = {}
        """Place of a generation in ``_seen`` -> owners."""

    def rebalances(
        self, brought_ms: Mapping[int, Sequence[int]], client_of: Mapping[str, str]
    ) -> tuple[RebalanceSeen, ...]:
        """All generations that began, in order.

        ``client_of``: member id -> host that received the id. The client id in the group's state is another one after a
        process took over a static member (``GroupMetadata.replaceStaticMember`` keeps the first client id).

        ``brought_ms``: generation -> arrivals of leaders' assignments. At this time Kafka's coordinator logs the change
        to Stable, before it writes the assignment. A group that is deleted has its generations again.
        """
        return tuple(
            attrs.evolve(
                seen,
                members=tuple(sorted(client_of.get(member, member) for member in seen.members)),
                leader=client_of.get(seen.leader, ""),
                owners=dict(sorted((client_of.get(who, who), its) for who, its in self._owners.get(place, {}).items())),
                stable_ms=seen.stable_ms
                and max(
                    (at_ms for at_ms in brought_ms.get(seen.generation, ()) if at_ms <= seen.stable_ms),
                    default=seen.stable_ms,
                ),
            )
            for place, seen in enumerate(self._seen)
        )

    def see(self, seen: Seen) -> None:
        """Note a rebalance, an owner or an effect that the fact reports."""
        at_ms = seen.at_us // 1000
        if at_ms >= self._until_ms:
            return
        host = host_of(seen.actor)
        if getattr(seen.fact, "group", self._group) != self._group:
            return
        match seen.fact:
            case GroupBecame() | JoinPhaseCompleted() | GroupEpochsChanged() | MemberReconciled():
                if self._panel.is_current(seen):
                    self._coordinated(at_ms, seen.fact)
            case AssignmentReceived(generation=generation, partitions=partitions):
                self._owns(generation, host, partitions)
            case PartitionsAssigned(added=partitions):
                self.held.assigned(at_ms, host, _named(partitions))
            case PartitionsRevoked(revoked=partitions) | PartitionsLost(lost=partitions):
                self.held.revoked(at_ms, host, _named(partitions))
            case MemberFailed() | MemberBecame(new="CLOSED" | "FAILED"):
                self.held.ended(at_ms, host)
            case HostDown(host=down):
                self.held.ended(at_ms, down)
            case HostPaused(host=still):
                self.held.paused(at_ms, still)
            case HostResumed(host=on):
                self.held.resumed(at_ms, on)

    def _owns(self, generation: int, who: str, partitions: tuple[TopicPartition, ...]) -> None:
        """Note an assignment. ``who``: the host, or the id of a member."""
        owned: dict[str, list[int]] = {}
        for topic, number in partitions:
            owned.setdefault(topic, []).append(number)
        by_topic = {topic: tuple(sorted(owned[topic])) for topic in sorted(owned)}
        place = max((at for at, each in enumerate(self._seen) if each.generation == generation), default=-1)
        self._owners.setdefault(place, {})[who] = by_topic

    def _coordinated(
        self, at_ms: int, fact: GroupBecame | JoinPhaseCompleted | GroupEpochsChanged | MemberReconciled
    ) -> None:
        match fact:
            case GroupEpochsChanged() if fact.epoch > fact.target_epoch:
                self._began = (at_ms, "")
            case MemberReconciled():
                self._owns(fact.epoch, fact.member_id, fact.assigned)
            case GroupBecame(new="PreparingRebalance"):
                self._began = (at_ms, without_uuids(fact.why))
            case GroupBecame(new="Stable") if self._seen and self._seen[-1].generation == fact.generation:
                self._seen[-1] = attrs.evolve(self._seen[-1], stable_ms=self._seen[-1].stable_ms or at_ms)
            case JoinPhaseCompleted() if fact.members:
                began_ms, reason = self._began or (None, "")
                self._began = None
                self._seen.append(
                    RebalanceSeen(fact.generation, fact.members, fact.leader, reason, began_ms, at_ms, None, {})
                )


class AnswersToMembers:
    """Records only brokers' responses to members (numbers by API, and errors) and leaders' assignments.

    ``client_of``: member id -> host of the member. ``brought_ms``: generation -> times at which the coordinator
    received a leader's assignment.
    """

    def __init__(self, panel: Panel, group: str, until_ms: int) -> None:
        self._panel = panel
        self._group = group
        self.requests: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.brought_ms: dict[int, list[int]] = {}
        self.client_of: dict[str, str] = {}
        self.hand_overs_ms: list[int] = []
        self._answered_us: dict[int, int] = {}
        """Generation -> time of its first JoinGroup response."""
        self._joined: dict[str, int] = {}
        self._assigned: dict[str, None] = {}
        """Ids of members that have sent SyncGroup before."""
        self.exchanges = ExchangesSeen()
        self._until_us = until_ms * 1000
        self._sent: dict[int, bytes] = {}

    def step(self, row: StepRow) -> None:
        """Note the packets that one step of a machine sent; ``packet`` examines these packets."""
        self._sent = {effect[1]: effect[5] for effect in row[6] if effect[0] == SEND}

    def packet(self, row: PacketRow) -> None:
        """Count a sent packet; later events of the same packet are ignored."""
        packet_id, at_us, _, to, _, api, _, _, due_us = row
        sealed = self._sent.pop(packet_id, None)
        if sealed is None or api not in COUNTED or at_us >= self._until_us:
            return
        group = self._panel.groups.get(self._group)
        if group is None or host_of(to) not in group.members:
            if api == "SyncGroup":
                request, _ = unseal(sealed)
                if isinstance(request, SyncGroup) and request.group == self._group:
                    self._synced(request, due_us)
            return
        message, _ = unseal(sealed)
        if isinstance(message, JoinGroupReply | ConsumerGroupHeartbeatReply) and message.member_id:
            self.client_of[message.member_id] = host_of(to)
        if isinstance(message, JoinGroupReply) and message.leader:
            self._answered_us.setdefault(message.generation, at_us)
            self._joined[message.member_id] = message.generation
        if SPECS[type(message)].kind is not Kind.REPLY:
            return
        self.requests[api] = self.requests.get(api, 0) + 1
        error = _first_error(message)
        said = error.name if error else ""
        if isinstance(message, ConsumerGroupHeartbeatReply):
            told = message.assignment
            partitions = None if told is None else sum(len(topic.partitions) for topic in told)
            self.exchanges.heartbeat_answered(host_of(to), said, message.member_epoch, partitions)
        else:
            generation = message.generation if isinstance(message, JoinGroupReply) and not error else 0
            self.exchanges.answered(host_of(to), api, said, generation)
        if error:
            name = f"{api} {said}"
            self.errors[name] = self.errors.get(name, 0) + 1

    def _synced(self, request: SyncGroup, due_us: int) -> None:
        """Note the arrival of a SyncGroup at the coordinator, as ``recordings`` does."""
        if request.assignments:
            self.brought_ms.setdefault(request.generation, []).append(due_us // 1000)
        generation = self._joined.pop(request.member_id, None)
        if generation == request.generation:
            if request.member_id in self._assigned:
                self.hand_overs_ms.append((due_us - self._answered_us[generation]) // 1000)
            self._assigned[request.member_id] = None

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Ignore facts, which ``CourseWatcher`` observes."""

    def broken(self, row: BrokenRow) -> None:
        """Do nothing: the run's verdict has the error."""


def _named(partitions: tuple[TopicPartition, ...]) -> list[str]:
    return [f"{topic}-{number}" for topic, number in partitions]


def _first_error(value: Any) -> ErrorCode:
    """The first error code in a response other than NONE."""
    if isinstance(value, ErrorCode):
        return value
    if isinstance(value, tuple):
        parts: Any = value
    elif attrs.has(type(value)):
        parts = (getattr(value, each.name) for each in attrs.fields(type(value)))
    else:
        return ErrorCode.NONE
    return next((found for found in map(_first_error, parts) if found), ErrorCode.NONE)
