"""The plan in the emulator: the same topics and steps; the store's contents and the requests to brokers.

The first broker is the controller, as in the recording: other brokers start a second later, and preferred leaders are
elected afterwards. The real cluster has a throttle to make copying slow; in the emulator, the target is isolated from
the leader. Neither affects the controller's actions.
"""

from typing import Any

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import (
    Crash,
    ElectPreferredLeaders,
    PartitionsReassignment,
    Pause,
    ReassignmentCancellation,
    Split,
    StartHost,
)
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import Run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.trace.rows import RECEIVED, Packets
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow
from kemu.protocol.messages.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.nodes import ReplicaAssignment, partition_of_state, read_state, read_topic, topic_of
from kemu.protocol.notes.replication import NodeWritten
from kemu.protocol.wire.codec import unseal
from lab.conformance.reassigning import plan
from lab.conformance.reassigning.plan import PlanStep
from lab.conformance.reassigning.sequences import (
    STORE,
    Base,
    Led,
    Sequences,
    assignment_line,
    leader_and_isr_line,
    state_line,
    stop_replica_line,
    update_metadata_line,
)

S = 1_000_000
AT_US = {
    plan.MOVE: 20 * S,
    plan.MOVE_SLOWLY: 30 * S,
    plan.CANCEL: 33 * S,
    plan.MOVE_TO_BROKER_THAT_DIES: 37 * S,
    plan.KILL: 40 * S,
    plan.RETURN: 53 * S,
}
"""Start of each step."""
assert tuple(AT_US) == plan.STEPS
_BROKERS = tuple(broker_host(broker) for broker in range(plan.BROKERS))


def scenario() -> Scenario:
    """The plan as a scenario."""
    dies = broker_host(plan.TARGET_THAT_DIES)
    entries: list[At] = [At(at_us=1, action=Pause(host=broker, for_us=S)) for broker in _BROKERS[1:]]
    entries.append(At(at_us=AT_US[plan.MOVE] - 5 * S, action=ElectPreferredLeaders()))
    entries += [entry for step in plan.STEPS for entry in _moves(step)]
    for step, after in ((plan.MOVE_SLOWLY, plan.CANCEL), (plan.MOVE_TO_BROKER_THAT_DIES, plan.KILL)):
        for topic, number, _ in step.targets:
            leader = broker_host(plan.TOPICS[topic][number][0])
            until_us = AT_US[after] + S - AT_US[step]
            entries.append(At(at_us=AT_US[step] - 1, action=Split(side=(leader,), other=(dies,), for_us=until_us)))
    entries.append(At(at_us=AT_US[plan.CANCEL], action=ReassignmentCancellation(topic=plan.CANCELLED)))
    entries.append(At(at_us=AT_US[plan.KILL], action=Crash(host=dies)))
    entries.append(At(at_us=AT_US[plan.RETURN], action=StartHost(host=dies)))
    entries.sort(key=lambda entry: entry.at_us)
    return Scenario(
        name="reassigning",
        duration_us=90 * S,
        brokers=BrokersSpec(
            count=plan.BROKERS,
            replication=ReplicationSpec(session_us=6 * S, lag_us=10 * S),
            config={"offsets.topic.num.partitions": 1},
        ),
        topics={
            topic: TopicSpec(
                partitions=len(rows), records_per_s=20, assignment=tuple(" ".join(map(str, row)) for row in rows)
            )
            for topic, rows in plan.TOPICS.items()
        },
        checks=ChecksSpec(stable_within_us=60 * S),
        plan=tuple(entries),
        draws="calm",
    )


def _moves(step: PlanStep) -> list[At]:
    lines: dict[str, list[str]] = {}
    for topic, number, to in step.targets:
        lines.setdefault(topic, []).append(f"{number}: {' '.join(map(str, to))}")
    return [
        At(at_us=AT_US[step], action=PartitionsReassignment(topic=topic, assignment=tuple(rows)))
        for topic, rows in lines.items()
    ]


def emulate(seed: int, *, profile: str) -> tuple[Sequences, str]:
    """Make one run of the plan; return its sequences and its verdict."""
    watcher = _Watcher()
    one = Run(scenario(), seed=seed, profile=profile, loop="bare", observers=(watcher,), recorder=watcher)
    broke = one.run_with(run_plain)
    return watcher.found, one.judging.finish(one.world.now_us, broke).verdict


class _Watcher:
    """Collects the store's contents (as an observer) and the brokers' requests (as the recorder)."""

    def __init__(self) -> None:
        self.found = Sequences(step.name for step in plan.STEPS)
        self._packets = Packets()
        self._bases: dict[TopicPartition, Base] = {}
        self._before: dict[TopicPartition, ReplicaAssignment] = {}

    def _step(self, at_us: int) -> str:
        return next((step.name for step, begins_us in reversed(AT_US.items()) if begins_us <= at_us), "")

    # --- the store ---------------------------------------------------------------------------------------------

    def see(self, seen: Seen) -> None:
        """Note a write to the store."""
        fact = seen.fact
        if type(fact) is not NodeWritten or fact.what == "deleted":
            return
        step, topic, at = self._step(seen.at_us), topic_of(fact.path), partition_of_state(fact.path)
        if at is not None and at[0] in plan.TOPICS:
            state = read_state(fact.data)
            if step:
                self.found.add(step, f"{at[0]}-{at[1]}", STORE, state_line(state, self._bases[at].epoch))
            else:
                self._bases[at] = Base(state.leader_epoch, fact.version)
        elif topic in plan.TOPICS:
            for number, assignment in read_topic(fact.data).items():
                if step and self._before.get((topic, number)) != assignment:
                    self.found.add(step, f"{topic}-{number}", STORE, assignment_line(assignment))
                self._before[topic, number] = assignment

    # --- brokers -----------------------------------------------------------------------------------------------

    def step(self, row: StepRow) -> None:
        """Note the packets that one step of a machine sent."""
        _, at_us, actor, _, _, event_row, effect_rows = row
        if event_row[0] == RECEIVED:
            packet = self._packets.take(event_row[1])
            if actor in _BROKERS:
                message, _ = unseal(packet.sealed)
                self._asked(self._step(at_us), actor, message)
        self._packets.sent(actor, effect_rows)

    def packet(self, row: PacketRow) -> None:
        """Note the requests of a packet that arrives."""

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Ignore facts, which ``see`` observes."""

    def broken(self, row: BrokenRow) -> None:
        """Do nothing: the run's verdict has the error."""

    def _asked(self, step: str, broker: str, message: object) -> None:
        if not step:
            return
        match message:
            case LeaderAndIsr(partition_states=rows):
                for row in rows:
                    if row.topic_name in plan.TOPICS:
                        self._add(step, broker, row, self._led(row))
            case UpdateMetadata(partition_states=states):
                for each in states:
                    if each.topic_name in plan.TOPICS:
                        line = update_metadata_line(_led(each), self._base(each), each.offline_replicas)
                        self._add(step, broker, each, line)
            case StopReplica(partition_states=stops):
                for stop in stops:
                    if stop.topic_name in plan.TOPICS:
                        base = self._bases[stop.topic_name, stop.partition_index]
                        line = stop_replica_line(stop.leader_epoch, base, delete=stop.delete_partition)
                        self.found.add(step, f"{stop.topic_name}-{stop.partition_index}", broker, line)

    def _led(self, row: LeaderAndIsrPartition) -> str:
        return leader_and_isr_line(
            _led(row), self._base(row), row.adding_replicas, row.removing_replicas, is_new=row.is_new
        )

    def _base(self, row: LeaderAndIsrPartition | UpdateMetadataPartition) -> Base:
        return self._bases[row.topic_name, row.partition_index]

    def _add(self, step: str, who: str, row: LeaderAndIsrPartition | UpdateMetadataPartition, line: str) -> None:
        self.found.add(step, f"{row.topic_name}-{row.partition_index}", who, line)


def _led(row: LeaderAndIsrPartition | UpdateMetadataPartition) -> Led:
    return Led(row.leader, row.leader_epoch, row.isr, row.zk_version, row.replicas)
