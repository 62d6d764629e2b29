"""Reassignments follow their steps, stay within the limits, and end.

- step-from-elsewhere, not-of-the-step: a step starts from the committed replicas and ends with its target, or with the
  committed replicas if it is cancelled.
- deleted-assigned: a log is deleted only after its replica is removed.
- too-many-leaders, too-many-partitions, too-many-replicas: a step is within
  ``reassignment.max.concurrent.*``.
- not-the-step, unused: a step uses the limits fully, new leaders first.
- dropped-in-sync: removing replicas leaves ``min.insync.replicas`` in sync.
- order-lost: a cancel restores the original order.
- unfinished, unnamed: reassignments with live brokers end, and their controller reports the reason of each wait.
- refused: no existing partition is refused.

Before KIP-455 the store names no adding and removing replicas, so the target is the target that the controller adopted.

Source: KIP-435, KIP-455, ``KafkaController.onPartitionReassignment`` 2.8.
"""

from collections.abc import Callable, Mapping
from typing import Self

from kemu.actors.controller.phases import ReplicaPhase
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Healed, Seen, TopicReplicated
from kemu.emulator.watching.settings import Settings
from kemu.protocol.dynamic_configs import MIN_INSYNC_REPLICAS
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EPOCH_DURING_DELETE
from kemu.protocol.names import STORE, TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.nodes import (
    BROKER_DEFAULTS,
    BROKER_IDS,
    DELETE_TOPICS,
    REASSIGN_PARTITIONS,
    TOPIC_CONFIGS,
    BadNode,
    PartitionState,
    ReplicaAssignment,
    read_config,
    read_reassignments,
    read_topic,
)
from kemu.protocol.notes.groups import AdminAnswered
from kemu.protocol.notes.replication import (
    REASSIGNED,
    BecameController,
    BecameFollower,
    BecameLeader,
    ControllerReady,
    NodeWritten,
    ReassignmentBlocked,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepCommitted,
    ReassignmentStepStarted,
    ReassignmentWaits,
    ReplicaStateBecame,
    ReplicaStopped,
    StateChangeRefused,
    StoreTookOver,
)
from kemu.protocol.reassign.moves import UNLIMITED, Limits, limits_by_key, without
from kemu.protocol.reassign.waiting import WaitReason

NO_LIMITS = Limits()
LIMITS_KNOWN_US = 2_000_000
"""Time for which a controller may still use the limits before a change, in us. No fault hits the controller or its link
to the store during this time."""
NAMED_WITHIN_US = 10_000_000
"""Longest time without a reported reason for a wait, in us. No fault hits the controller or its link to the store
during this time."""


class _Reassignment:
    """The replicas of a partition and its reassignment."""

    def __init__(self) -> None:
        self.node = ReplicaAssignment(())
        self.since_us = 0
        """Time since which the store has the partition, in us."""
        self.committed: tuple[int, ...] = ()
        """The replicas before the running step, or now without a running step."""
        self.began_with: frozenset[int] | None = None
        """The committed replicas at the request; None without a reassignment."""
        self.target: tuple[int, ...] | None = None
        """The target that a controller adopted."""
        self.cancelled = False
        self.blocked = False
        """Whether no broker that could get a replica is alive."""
        self.is_short = False
        """Whether the controller reports that too few replicas would be left in sync."""
        self.waits = ""
        """The reason that the controller last reported for an unfinished step."""
        self.unreported_since_us: int | None = None
        """Time since which no controller reports a reason of the wait, in us; None with a report or without a running
        reassignment."""
        self.is_known = True
        """Whether the present controller wrote the present state of the reassignment."""
        self.moves_leader: bool | None = None
        """Whether the last step moves the leader; None for a reassignment without a slot among the running
        reassignments."""
        self.dropped: ReplicaAssignment | None = None
        """The step whose removals were checked."""
        self.removed_from_isr: dict[int, PartitionState] = {}
        """Removing replica that the controller removed from the ISR -> former state."""
        self.assigned_in: dict[int, int] = {}
        """Added replica whose broker has received no request yet -> leader epoch before the request."""

    @property
    def runs(self) -> bool:
        """Whether a step is running."""
        return bool(self.node.adding or self.node.removing)

    @property
    def final(self) -> tuple[int, ...]:
        """The replicas after the whole reassignment."""
        return self.node.target_replicas or self.node.target


class ReassignmentChecker(Checker):
    """Judges the steps, limits and ends of reassignments.

    Args:
        limits: the brokers' limits at the start; None for an algorithm without limits.
    """

    name = "reassignment"
    kinds = (
        "deleted-assigned",
        "dropped-in-sync",
        "not-of-the-step",
        "not-the-step",
        "order-lost",
        "refused",
        "step-from-elsewhere",
        "too-many-leaders",
        "too-many-partitions",
        "too-many-replicas",
        "unfinished",
        "unnamed",
        "unused",
    )

    def __init__(self, *, limits: Limits | None = NO_LIMITS) -> None:
        super().__init__()
        self._started_with = limits
        self._limits = limits or NO_LIMITS
        self._former: tuple[Limits, ...] = ()
        """Limits before the last changes, which the controller may still use."""
        self._limits_us = 0
        """Time of the last change of the limits, in us."""
        self._reassignments: dict[TopicPartition, _Reassignment] = {}
        self._least: dict[str, int] = {}
        self._to_be_deleted: dict[str, None] = {}
        self._controller = ""
        self._is_starting = False
        """Whether the newest controller is still reading the cluster."""
        self._listed: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition in the store's list -> requested replicas, for requests that no controller has begun."""
        self._brokers_us = 0
        """Time of the last change of a broker's registration, in us."""
        self._unused_since_us: int | None = None
        """Time since which a reassignment could begin and has not begun, in us; None without such a reassignment."""
        self._healed: Seen | None = None
        self.on = {
            NodeWritten: self._written,
            StoreTookOver: self._store_serves,
            TopicReplicated: self._topic,
            ReassignmentStarted: self._started,
            ReassignmentStepStarted: self._waits_now,
            ReassignmentBlocked: self._waits_now,
            ReassignmentWaits: self._waits_now,
            StateChangeRefused: self._failed,
            ReassignmentStepCommitted: self._committed_step,
            ReassignmentFinished: self._finished,
            BecameController: self._controls,
            ControllerReady: self._is_ready,
            ReplicaStateBecame: self._replica_moved,
            BecameLeader: self._got_order,
            BecameFollower: self._got_order,
            ReplicaStopped: self._stopped,
            AdminAnswered: self._answered,
            Healed: self._heal,
        }

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        replication = settings.scenario.brokers.replication
        return cls() if replication is None else cls(limits=replication.limits())

    def _reassignment(self, topic: str, partition: int) -> _Reassignment:
        move = self._reassignments.get((topic, partition))
        if move is None:
            move = self._reassignments[topic, partition] = _Reassignment()
        return move

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._least[fact.topic] = fact.min_isr

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen

    # --- reports of controllers ------------------------------------------------------------------------------------

    def _started(self, seen: Seen, fact: ReassignmentStarted) -> None:
        move = self._reassignment(fact.topic, fact.partition)
        self._listed.pop((fact.topic, fact.partition), None)
        if not fact.resumed or move.began_with is None:
            move.began_with = frozenset(move.committed or fact.replicas)
        move.target = fact.target
        if seen.actor == self._controller:  # a deposed controller begins nothing in the store (seed 131)
            move.unreported_since_us = seen.at_us
        if not fact.resumed:
            move.cancelled = fact.called_back
        elif not move.runs:
            move.moves_leader = None  # a new controller knows only the slots of running steps
        elif move.moves_leader:  # an election may have moved the leader before the new controller counts
            move.moves_leader = self._moves_leader((fact.topic, fact.partition), move)

    def _waits_now(self, seen: Seen, fact: ReassignmentStepStarted | ReassignmentWaits | ReassignmentBlocked) -> None:
        move = self._reassignment(fact.topic, fact.partition)
        match fact:
            case ReassignmentStepStarted(waits_for=why) | ReassignmentWaits(why=why):
                move.waits, move.blocked = why, False
                move.is_short = isinstance(fact, ReassignmentWaits) and fact.reason == WaitReason.MIN_ISR
            case ReassignmentBlocked(why=why):
                move.waits, move.moves_leader = why or "no broker that could get a replica is up", None
                move.blocked = True
        if move.waits:
            move.unreported_since_us = None

    def _failed(self, seen: Seen, fact: StateChangeRefused) -> None:
        """Note a report that a step failed, for example because the controller does not know the partition's state."""
        topic, _, number = fact.what.rpartition("-")
        if fact.new == REASSIGNED and number.isdecimal():
            move = self._reassignment(topic, int(number))
            move.waits, move.unreported_since_us = fact.why, None

    def _committed_step(self, seen: Seen, fact: ReassignmentStepCommitted) -> None:
        move = self._reassignment(fact.topic, fact.partition)
        move.waits, move.unreported_since_us = "", seen.at_us

    def _finished(self, seen: Seen, fact: ReassignmentFinished) -> None:
        self._reassignment(fact.topic, fact.partition).unreported_since_us = None

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        """Restart all clocks for a new controller, which knows only the store's content and reports all moves."""
        self._controller, self._is_starting, self._unused_since_us = seen.actor, True, None
        for move in self._reassignments.values():
            move.waits, move.removed_from_isr = "", {}
            move.unreported_since_us = seen.at_us if move.node.is_being_reassigned else None

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if seen.actor == self._controller:
            self._is_starting = False
            self._restart_reports(seen.at_us)

    def _store_serves(self, seen: Seen, fact: StoreTookOver) -> None:
        """Restart the clocks of reports. Without a store the controller could begin no reassignment."""
        self._restart_reports(seen.at_us)

    def _restart_reports(self, at_us: int) -> None:
        for move in self._reassignments.values():
            move.unreported_since_us = None if move.unreported_since_us is None else at_us

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        topic, deleted = self.panel.written_topic, fact.what == "deleted"
        # the end of a session also deletes nodes
        if fact.client == self._controller and not self._is_starting and not deleted:
            self._check_named(seen)
            self._check_used(seen)
        if self.panel.written is not None:
            self._state_written(self.panel.written)
            if self.panel.written in self._reassignments:
                self._reassignments[self.panel.written].is_known = fact.client == self._controller
        elif topic:
            if deleted:
                self._to_be_deleted.pop(topic, None)
            self._topic_written(seen, topic, {} if deleted else read_topic(fact.data))
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            self._to_be_deleted[fact.path.rpartition("/")[2]] = None
        elif fact.path == REASSIGN_PARTITIONS:
            self._list_written(seen, {} if deleted else listed_in(fact.data), by_admin=fact.client != self._controller)
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            self._brokers_us = seen.at_us
        elif fact.path == BROKER_DEFAULTS:
            self._configured(seen, {} if deleted else read_config(fact.data))
        elif fact.path.startswith(f"{TOPIC_CONFIGS}/") and not deleted:
            least = read_config(fact.data).get(MIN_INSYNC_REPLICAS)
            if least is not None:
                self._least[fact.path.rpartition("/")[2]] = int(least)

    def _check_named(self, seen: Seen) -> None:
        """Judge whether a controller that writes to the store also reports the reason of each wait."""
        silent = [(at, move) for at, move in self._reassignments.items() if move.unreported_since_us is not None]
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller))) if silent else None
        for at, move in silent if able_us is not None else ():
            if seen.at_us - max(move.unreported_since_us or 0, able_us or 0) > NAMED_WITHIN_US:
                move.unreported_since_us = None
                name = f"{at[0]}-{at[1]}"
                text = f"{name} is being reassigned, and {self._controller} has not reported"
                text += f" for {NAMED_WITHIN_US // 1_000_000} s why it waits"
                self.violation(seen, "unnamed", (name,), text)

    def _check_used(self, seen: Seen) -> None:
        """Judge whether a reassignment waits although the limits allow it to run."""
        self._forget_limits(seen)
        limits = (self._limits, *self._former)
        known = self._reassignments.items()
        waiting = [at for at, move in known if move.node.is_being_reassigned and self._could_begin(at, move)]
        under_way = [move for move in self._reassignments.values() if move.moves_leader is not None]
        leading = sum(bool(move.moves_leader and move.runs) for move in under_way)
        is_free = len(under_way) < min(each.partition_movements for each in limits)
        if not waiting or not is_free or leading >= min(each.leader_movements for each in limits):
            self._unused_since_us = None
            return
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller)))
        if self._unused_since_us is None or able_us is None:
            self._unused_since_us = seen.at_us
        elif seen.at_us - max(self._unused_since_us, able_us) > NAMED_WITHIN_US:
            self._unused_since_us = None
            name = f"{waiting[0][0]}-{waiting[0][1]}"
            text = f"{name} has not begun for {NAMED_WITHIN_US // 1_000_000} s, while {len(under_way)} are running"
            self.violation(seen, "unused", (name,), f"{text}; {self._limits.partition_movements} may run")

    def _could_begin(self, at: TopicPartition, move: _Reassignment) -> bool:
        up = all(broker in self.panel.registered for broker in (*move.node.replicas, *move.final))
        if move.is_short and len(self._in_sync(at, move)) < self._least.get(at[0], 1):
            return False
        return move.moves_leader is None and not move.blocked and not move.runs and up

    def _in_sync(self, at: TopicPartition, move: _Reassignment) -> list[int]:
        """The committed replicas that are in the ISR and registered."""
        state = self.panel.states.get(at)
        isr = () if state is None else state.isr
        return [broker for broker in move.committed if broker in isr and broker in self.panel.registered]

    def _answered(self, seen: Seen, fact: AdminAnswered) -> None:
        """Judge refusals. The answer names the first refused partition."""
        if fact.api != "AlterPartitionReassignments" or fact.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        name = fact.text.partition(":")[0]
        topic, _, number = name.rpartition("-")
        move = self._reassignments.get((topic, int(number))) if number.isdecimal() else None
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller)))
        if move is None or able_us is None or topic in self._to_be_deleted:
            return
        if seen.at_us - max(move.since_us, able_us) > NAMED_WITHIN_US:
            text = f"the reassignment of {name} is refused as if the partition did not exist"
            self.violation(seen, "refused", (name,), text)

    def _list_written(self, seen: Seen, now: dict[TopicPartition, tuple[int, ...]], *, by_admin: bool) -> None:
        """Judge whether the controller removes a request from the list that the controller could begin."""
        removed_requests = {} if by_admin else {at: each for at, each in self._listed.items() if at not in now}
        for at, target in removed_requests.items():
            move, name = self._reassignments.get(at), f"{at[0]}-{at[1]}"
            hosts = (STORE, host_of(self._controller), *map(broker_host, target))
            able_us = self.panel.disturbances.undisturbed_since_us(hosts)
            if move is None or able_us is None or at[0] in self._to_be_deleted:
                continue
            if target in (move.node.replicas, move.final, move.target):
                continue
            if seen.at_us - max(move.since_us, able_us) > NAMED_WITHIN_US and len(set(target)) == len(target) > 0:
                text = f"the reassignment of {name} to {target} is removed from the list"
                self.violation(seen, "refused", (name,), text)
        self._listed = now if by_admin else {at: each for at, each in self._listed.items() if at in now}

    def _configured(self, seen: Seen, settings: Mapping[str, str]) -> None:
        if self._started_with is not None:
            self._forget_limits(seen)
            self._former, self._limits_us = (*self._former, self._limits), seen.at_us
            defaults = limits_by_key(self._started_with)
            self._limits = Limits(*(int(settings.get(key, default)) for key, default in defaults.items()))

    def _forget_limits(self, seen: Seen) -> None:
        """Forget former limits once the controller has had time to read the present limits without a fault."""
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller)))
        if able_us is not None and seen.at_us - max(able_us, self._limits_us) >= LIMITS_KNOWN_US:
            self._former = ()

    def _topic_written(self, seen: Seen, topic: str, rows: Mapping[int, ReplicaAssignment]) -> None:
        """Note a topic's replicas. A controller may write the node without unread partitions; the topic loses these
        partitions.
        """
        for at in [at for at in self._reassignments if at[0] == topic and at[1] not in rows]:
            del self._reassignments[at]
        began: list[TopicPartition] = []
        for number, now in rows.items():
            at = (topic, number)
            move = self._reassignment(*at)
            before, ran, move.node = move.node, move.runs, now
            if not before.replicas:
                move.committed, move.since_us = now.origin, seen.at_us
            elif before != now:
                self._check_change(seen, at, before, now)
                state = self.panel.states.get(at)
                settings = -1 if state is None else state.leader_epoch
                move.assigned_in.update(dict.fromkeys(without(now.replicas, before.replicas), settings))
                if move.runs and (not ran or before.adding != now.adding):
                    began.append(at)
            if not move.runs:
                move.committed = now.replicas
            if not now.is_being_reassigned:
                move.moves_leader = None
        for at in began:
            self._check_limits(seen, at)

    def _check_change(self, seen: Seen, at: TopicPartition, before: ReplicaAssignment, now: ReplicaAssignment) -> None:
        """Judge a change of replicas."""
        move, name = self._reassignments[at], f"{at[0]}-{at[1]}"
        committed, target = move.committed, set(move.target or ())
        if move.runs:
            if set(now.origin) != set(committed):
                text = f"a step of {name} removes or keeps {now.origin}; the committed replicas were {committed}"
                self.violation(seen, "step-from-elsewhere", (name,), text)
            return
        ran = bool(before.adding or before.removing)
        allowed = [set(committed), set(before.target)] if ran else [set(committed)]
        if not ran and target and not now.target_replicas:  # before KIP-455
            allowed += [set(committed) | target, target]
        if set(now.replicas) not in allowed:
            text = f"{name} has {now.replicas} now; committed was {committed}, and the step's target {before.target}"
            self.violation(seen, "not-of-the-step", (name,), text)
        elif move.cancelled and ran and set(now.replicas) == set(committed) != set(before.target):
            original = before.original_replicas
            wanted = original if set(original) == set(committed) else before.origin
            if now.replicas != wanted:
                text = f"the cancelled reassignment of {name} ended with {now.replicas}; it began with {wanted}"
                self.violation(seen, "order-lost", (name,), text)

    def _check_limits(self, seen: Seen, at: TopicPartition) -> None:
        """Judge the limits at the beginning of a step. A reassignment keeps its slot for its next steps.

        After a lowered limit of partitions, more reassignments may have a slot than steps may run.
        """
        name, move = f"{at[0]}-{at[1]}", self._reassignments[at]
        is_new, move.moves_leader = move.moves_leader is None, self._moves_leader(at, move)
        under_way = [each for each in self._reassignments.values() if each.moves_leader is not None]
        leading = [each for each in under_way if each.moves_leader and each.runs]
        self._forget_limits(seen)

        def most(of: Callable[[Limits], int]) -> int:
            return max(map(of, (self._limits, *self._former)))

        replicas = max(most(lambda limits: limits.replica_movements), self._deficit(at, move))
        if len(move.node.adding) > replicas:
            text = f"{name} adds {move.node.adding} in one step; at most {replicas} may be added at once"
            self.violation(seen, "too-many-replicas", (name,), text)
        partitions = most(lambda limits: limits.partition_movements)
        taken = len(under_way) if is_new else sum(each.runs for each in under_way)
        if taken > partitions:
            text = f"{name} begins while {taken - 1} are running; at most {partitions} may run"
            self.violation(seen, "too-many-partitions", (name,), text)
        if not self._former and self._limits.replica_movements < UNLIMITED:
            self._check_size(seen, at, replicas)
        leaders = most(lambda limits: limits.leader_movements)
        if move.moves_leader and len(leading) > leaders:
            text = f"{name} begins to move its leader while {len(leading) - 1} do; at most {leaders} may"
            self.violation(seen, "too-many-leaders", (name,), text)

    def _check_size(self, seen: Seen, at: TopicPartition, most: int) -> None:
        """Judge the size of a step whose controller knows the live and in-sync brokers, by KIP-435's rule for ``most``
        replicas.
        """
        move, state = self._reassignments[at], self.panel.states.get(at)
        node, final, committed = move.node, move.final, move.committed
        hosts = (STORE, *map(broker_host, dict.fromkeys((*committed, *final))))
        able_us = self.panel.disturbances.undisturbed_since_us(hosts)
        is_up = able_us is not None and seen.at_us - max(able_us, self._brokers_us) > NAMED_WITHIN_US
        in_sync = [] if state is None else [broker for broker in committed if broker in state.isr]
        if not is_up or not move.is_known or any(broker in final and broker not in in_sync for broker in committed):
            return
        missing, excess = without(final, committed), without(committed, final)
        adds, drops = len(node.adding), len(node.removing)
        most_drops = max(most, len(committed) - len(final))
        may_add = min(most, len(missing))
        at_most = may_drop = min(most_drops, len(excess), max(0, len(committed) + may_add - len(final)))
        spare = len(in_sync) + adds - min(self._least.get(at[0], 1), len(final))
        may_drop = min(may_drop, len([broker for broker in excess if broker not in in_sync]) + max(0, spare))
        wanted = ""
        if len(missing) <= most and len(excess) <= most_drops:
            wanted = "" if (adds, drops) == (len(missing), len(excess)) else "one step may do all of it"
        elif final[0] in missing:
            wanted = "" if final[0] in node.adding and not drops else "its new leader comes first"
        elif (adds < may_add and len(committed) - drops + adds < len(final)) or not may_drop <= drops <= at_most:
            wanted = f"{may_add} may be added and {may_drop} removed"
        if wanted:
            name = f"{at[0]}-{at[1]}"
            text = f"a step of {name} from {committed} to {final} adds {node.adding} and removes {node.removing}"
            self.violation(seen, "not-the-step", (name,), f"{text}; {wanted}")

    def _moves_leader(self, at: TopicPartition, move: _Reassignment) -> bool:
        state, node = self.panel.states.get(at), move.node
        if node.target_replicas and node.target_replicas[0] in node.adding and not node.removing:
            return True  # the step exists to elect the added replica
        return state is not None and state.leader in node.removing

    def _deficit(self, at: TopicPartition, move: _Reassignment) -> int:
        """Number of replicas that min.insync.replicas lacks before the first step is committed."""
        if self.panel.states.get(at) is None or frozenset(move.committed) != move.began_with:
            return 0
        return max(0, self._least.get(at[0], 1) - len(self._in_sync(at, move)))

    def _state_written(self, at: TopicPartition) -> None:
        """Note removals from the ISR. At the end of a step, the controller first writes the state, and later only
        removals.
        """
        move, before, state = self._reassignments.get(at), self.panel.state_before, self.panel.states.get(at)
        if move is None:
            return
        removed: list[int] = []
        if before is not None and state is not None and self.panel.was_elected:
            removed = [broker for broker in before.isr if broker not in state.isr and broker in move.node.removing]
        move.removed_from_isr = (
            {**move.removed_from_isr, **dict.fromkeys(removed, before)} if before is not None and removed else {}
        )

    def _replica_moved(self, seen: Seen, fact: ReplicaStateBecame) -> None:
        """Judge the first removal of a step. A replica that the controller regarded as dead was offline before its
        deletion.
        """
        at = (fact.topic, fact.partition)
        move = self._reassignments.get(at)
        if move is None or fact.new == ReplicaPhase.OFFLINE.value:
            return  # an offline replica is the write itself
        before, node = move.removed_from_isr.pop(fact.replica, None), move.node
        if before is None or fact.new != ReplicaPhase.DELETION_STARTED.value or move.dropped is node:
            return
        move.dropped = node
        left, least = without(before.isr, node.removing), min(self._least.get(at[0], 1), len(move.final))
        if len(left) < least:
            name = f"{at[0]}-{at[1]}"
            text = f"{name} removes {node.removing}; {left} of its ISR {before.isr} remain, but {least} must"
            self.violation(seen, "dropped-in-sync", (name,), text)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _got_order(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        move, broker = self._reassignments.get((fact.topic, fact.partition)), broker_of(seen.actor)
        if move is not None and fact.leader_epoch > move.assigned_in.get(broker, fact.leader_epoch):
            del move.assigned_in[broker]

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        """Judge deletions of logs."""
        at, broker = (fact.topic, fact.partition), broker_of(seen.actor)
        move = self._reassignments.get(at)
        if not fact.deleted or move is None or self._may_be_deleted(fact.topic):
            return
        if EPOCH_DURING_DELETE < fact.leader_epoch <= move.assigned_in.get(broker, EPOCH_DURING_DELETE):
            return  # the request is from before the replica was assigned
        stays = move.node.target
        if not move.runs and move.target is not None and set(move.target) < set(move.node.replicas):
            stays = move.target  # before KIP-455
        if broker in stays:
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} deletes its log of {name}, which has {move.node.replicas}, although {stays} must stay"
            self.violation(seen, "deleted-assigned", (name, seen.actor), text)

    def _may_be_deleted(self, topic: str) -> bool:
        """Whether the topic is being deleted and none of its partitions is being reassigned."""
        moves = (move.node.is_being_reassigned for at, move in self._reassignments.items() if at[0] == topic)
        return topic in self._to_be_deleted and not any(moves)

    # --- the end -----------------------------------------------------------------------------------------------

    def _unfinished(self) -> dict[TopicPartition, _Reassignment]:
        """Running reassignments whose target brokers are all alive, and whose controller knows the partition."""
        return {
            at: move
            for at, move in self._reassignments.items()
            if move.node.is_being_reassigned
            and all(broker in self.panel.registered for broker in move.final)
            and not self.panel.unknown_states.has(at)
        }

    @property
    def satisfied(self) -> bool:
        """Whether no reassignment that could end is running."""
        return not self._unfinished()

    def finish(self, at_us: int) -> None:
        """Judge reassignments at the end of a run that had time to recover."""
        if self._healed is None or at_us <= self._healed.at_us:
            return
        seen, unfinished = self._healed._replace(at_us=at_us), self._unfinished()
        for at, move in self._reassignments.items():
            name, since_us = f"{at[0]}-{at[1]}", move.unreported_since_us
            if at in unfinished:
                why = move.waits or "its controller reports no reason"
                text = f"the reassignment of {name} to {move.final} has not ended: {why}"
                self.violation(seen, "unfinished", (name,), text, liveness=True)
            elif since_us is not None and at_us - max(since_us, self._healed.at_us) > NAMED_WITHIN_US:
                text = f"{name} is being reassigned at the end, and no controller has reported why it waits"
                self.violation(seen, "unnamed", (name,), text, liveness=True)


def listed_in(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Partition -> requested replicas of the store's list; empty for a list that controllers refuse."""
    try:
        return read_reassignments(data)
    except BadNode:
        return {}
