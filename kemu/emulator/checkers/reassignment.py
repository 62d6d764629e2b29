"""Reassignments: only what a step adds and drops changes, no more at a time than allowed, and they end.

====  =============================================================================================================
I11   while a step runs the store has the committed replicas (those of before) and those that it adds; then what it
      keeps or, called back, the committed ones. A log is deleted only when its replica goes, or its topic, of which
      nothing may be on its way. An order of before a replica was assigned may be obeyed late (``RequestSendThread``)
I13   a step begins within ``reassignment.max.concurrent.*``; a changed limit counts a moment later. While these allow
      more, nothing waits that could begin; a step does all that is left, if it may, else the new leader comes first,
      else as many come and go as may
I14   a step that drops replicas leaves ``min.insync.replicas`` in sync, or as many as the target has. It drops whom its
      controller deletes at once; who only goes offline is dead for it
I15   what is called back before anything was committed has its original list in its order
Q5    reassignments whose brokers are up end; meanwhile their controller names what they wait for. None is refused for
      a partition that is there
====  =============================================================================================================

Before KIP-455 the store does not tell what comes and goes: the target is the one that the controller took up. Source:
KIP-435, KIP-455, ``KafkaController.onPartitionReassignment`` 2.8.
"""

from collections.abc import Callable, Mapping

from kemu.actors.controller.context import ReplicaPhase
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Healed, Seen, TopicReplicated
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
    StoreTookOver,
)
from kemu.protocol.reassign.moves import UNLIMITED, Limits, limits_by_key, without

NO_LIMITS = Limits()
HEARD_OF_US = 2_000_000
"""How long a controller may go on by limits that were changed."""
NAMED_WITHIN_US = 10_000_000
"""How long a controller may leave unsaid what a partition waits for. No fault hits it or its link to the store then."""


class _Way:
    """A partition, and where it is taken."""

    def __init__(self) -> None:
        self.node = ReplicaAssignment(())
        self.since_us = 0
        """Since when the store has it."""
        self.committed: tuple[int, ...] = ()
        """The replicas assigned when no step ran."""
        self.began_with: frozenset[int] | None = None
        """The replicas committed when the reassignment was asked for."""
        self.target: tuple[int, ...] | None = None
        """Where a controller takes it."""
        self.called_back = False
        self.blocked = False
        """Its controller finds no broker that could get a replica."""
        self.waits = ""
        """Why a step is not over, as its controller said last."""
        self.silent_us: int | None = None
        """On its way, and since when nobody names what it waits for."""
        self.is_known = True
        """Its controller wrote the state that the store has."""
        self.moves_leader: bool | None = None
        """Whether its last step moves the leader; None: it has no place among those under way."""
        self.dropped: ReplicaAssignment | None = None
        """The step whose drops were checked."""
        self.taken_out: dict[int, PartitionState] = {}
        """Replicas that are to go and were taken out of the ISR by their controller -> the state before."""
        self.assigned_in: dict[int, int] = {}
        """Replicas that were assigned, and whose brokers were not told yet -> the leader epoch until then."""

    @property
    def runs(self) -> bool:
        """Whether a step runs."""
        return bool(self.node.adding or self.node.removing)

    @property
    def final(self) -> tuple[int, ...]:
        """Where it is to arrive."""
        return self.node.target_replicas or self.node.target


class ReassignmentChecker(Checker):
    """Only what a step adds and drops changes, no more at a time than allowed, and reassignments end.

    Args:
        limits: what brokers are started with; None: the algorithm knows no limits.
    """

    name = "reassignment"

    def __init__(self, *, limits: Limits | None = NO_LIMITS) -> None:
        super().__init__()
        self._started_with = limits
        self._limits = limits or NO_LIMITS
        self._former = (self._limits, -HEARD_OF_US)
        """The limits before, and until when."""
        self._ways: dict[TopicPartition, _Way] = {}
        self._least: dict[str, int] = {}
        self._to_be_deleted: dict[str, None] = {}
        self._controller = ""
        self._gets_ready = False
        """Whether that controller still reads the cluster and gets its state machines up."""
        self._listed: dict[TopicPartition, tuple[int, ...]] = {}
        """Partition -> the replicas that the list in the store asks for, while no controller has begun it."""
        self._brokers_us = 0
        """When a broker was last registered, or gone."""
        self._unused_us: int | None = None
        """Since when something could begin and does not."""
        self._healed: Seen | None = None
        self.on = {
            NodeWritten: self._written,
            StoreTookOver: self._store_serves,
            TopicReplicated: self._topic,
            ReassignmentStarted: self._started,
            ReassignmentStepStarted: self._waits_now,
            ReassignmentBlocked: self._waits_now,
            ReassignmentWaits: self._waits_now,
            ReassignmentStepCommitted: self._committed_step,
            ReassignmentFinished: self._finished,
            BecameController: self._controls,
            ControllerReady: self._is_ready,
            ReplicaStateBecame: self._replica_moved,
            BecameLeader: self._was_told,
            BecameFollower: self._was_told,
            ReplicaStopped: self._stopped,
            AdminAnswered: self._answered,
            Healed: self._heal,
        }

    def _way(self, topic: str, partition: int) -> _Way:
        way = self._ways.get((topic, partition))
        if way is None:
            way = self._ways[topic, partition] = _Way()
        return way

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._least[fact.topic] = fact.min_isr

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen

    # --- what controllers say ----------------------------------------------------------------------------------

    def _started(self, seen: Seen, fact: ReassignmentStarted) -> None:
        way = self._way(fact.topic, fact.partition)
        self._listed.pop((fact.topic, fact.partition), None)
        if not fact.resumed or way.began_with is None:
            way.began_with = frozenset(way.committed or fact.replicas)
        way.target, way.silent_us = fact.target, seen.at_us
        if not fact.resumed:
            way.called_back = fact.called_back
        elif not way.runs:
            way.moves_leader = None  # a new controller knows no places but those of steps that run

    def _waits_now(self, seen: Seen, fact: ReassignmentStepStarted | ReassignmentWaits | ReassignmentBlocked) -> None:
        way = self._way(fact.topic, fact.partition)
        match fact:
            case ReassignmentStepStarted(waits_for=why) | ReassignmentWaits(why=why):
                way.waits, way.blocked = why, False
            case ReassignmentBlocked(why=why):
                way.waits, way.moves_leader = why or "no broker that could get a replica is up", None
                way.blocked = True
        if way.waits:
            way.silent_us = None

    def _committed_step(self, seen: Seen, fact: ReassignmentStepCommitted) -> None:
        way = self._way(fact.topic, fact.partition)
        way.waits, way.silent_us = "", seen.at_us

    def _finished(self, seen: Seen, fact: ReassignmentFinished) -> None:
        self._way(fact.topic, fact.partition).silent_us = None

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        """A new controller has everything to say anew; what never reached the store it does not know."""
        self._controller, self._gets_ready, self._unused_us = seen.actor, True, None
        for way in self._ways.values():
            way.waits, way.taken_out = "", {}
            way.silent_us = seen.at_us if way.node.is_being_reassigned else None

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if seen.actor == self._controller:
            self._gets_ready = False
            self._silent_from(seen.at_us)

    def _store_serves(self, seen: Seen, fact: StoreTookOver) -> None:
        """While there was no store its controller could begin nothing, and waited for nothing else."""
        self._silent_from(seen.at_us)

    def _silent_from(self, at_us: int) -> None:
        for way in self._ways.values():
            way.silent_us = None if way.silent_us is None else at_us

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        topic, deleted = self.panel.written_topic, fact.what == "deleted"
        if fact.client == self._controller and not self._gets_ready and not deleted:  # its session's end deletes, too
            self._check_named(seen)
            self._check_used(seen)
        if self.panel.written is not None:
            self._state_written(self.panel.written)
            if self.panel.written in self._ways:
                self._ways[self.panel.written].is_known = fact.client == self._controller
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
        """Q5: a controller that goes on writing to the store and says nothing of a partition has forgotten it."""
        silent = [(at, way) for at, way in self._ways.items() if way.silent_us is not None]
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller))) if silent else None
        for at, way in silent if able_us is not None else ():
            if seen.at_us - max(way.silent_us or 0, able_us or 0) > NAMED_WITHIN_US:
                way.silent_us = None
                name = f"{at[0]}-{at[1]}"
                text = f"{name} is on its way, and {self._controller} has not"
                text += f" named for {NAMED_WITHIN_US // 1_000_000} s what it waits for (Q5)"
                self.violation(seen, "unnamed", (name,), text)

    def _check_used(self, seen: Seen) -> None:
        """I13: what limits leave unused."""
        limits, (former, _) = self._limits, self._former
        waiting = [at for at, way in self._ways.items() if way.node.is_being_reassigned and self._could_begin(way)]
        under_way = [way for way in self._ways.values() if way.moves_leader is not None]
        leading = sum(bool(way.moves_leader and way.runs) for way in under_way)
        is_free = len(under_way) < min(limits.partition_movements, former.partition_movements)
        if not waiting or not is_free or leading >= min(limits.leader_movements, former.leader_movements):
            self._unused_us = None
            return
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller)))
        if self._unused_us is None or able_us is None:
            self._unused_us = seen.at_us
        elif seen.at_us - max(self._unused_us, able_us) > NAMED_WITHIN_US:
            self._unused_us = None
            name = f"{waiting[0][0]}-{waiting[0][1]}"
            text = f"{name} has not begun for {NAMED_WITHIN_US // 1_000_000} s, while {len(under_way)} are under way"
            self.violation(seen, "unused", (name,), f"{text}; {limits.partition_movements} may (I13)")

    def _could_begin(self, way: _Way) -> bool:
        up = all(broker in self.panel.registered for broker in (*way.node.replicas, *way.final))
        return way.moves_leader is None and not way.blocked and not way.runs and up

    def _answered(self, seen: Seen, fact: AdminAnswered) -> None:
        """Q5: the answer names the first partition that is refused."""
        if fact.api != "AlterPartitionReassignments" or fact.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        name = fact.text.partition(":")[0]
        topic, _, number = name.rpartition("-")
        way = self._ways.get((topic, int(number))) if number.isdecimal() else None
        able_us = self.panel.disturbances.undisturbed_since_us((STORE, host_of(self._controller)))
        if way is None or able_us is None or topic in self._to_be_deleted:
            return
        if seen.at_us - max(way.since_us, able_us) > NAMED_WITHIN_US:
            text = f"the reassignment of {name} is refused, as if there were no such partition (Q5)"
            self.violation(seen, "refused", (name,), text)

    def _list_written(self, seen: Seen, now: dict[TopicPartition, tuple[int, ...]], *, by_admin: bool) -> None:
        """Q5: nothing is struck out that could be taken up."""
        struck_out = {} if by_admin else {at: each for at, each in self._listed.items() if at not in now}
        for at, target in struck_out.items():
            way, name = self._ways.get(at), f"{at[0]}-{at[1]}"
            hosts = (STORE, host_of(self._controller), *map(broker_host, target))
            able_us = self.panel.disturbances.undisturbed_since_us(hosts)
            if way is None or able_us is None or at[0] in self._to_be_deleted:
                continue
            if target in (way.node.replicas, way.final, way.target):
                continue
            if seen.at_us - max(way.since_us, able_us) > NAMED_WITHIN_US and len(set(target)) == len(target) > 0:
                self.violation(seen, "refused", (name,), f"the reassignment of {name} to {target} is struck out (Q5)")
        self._listed = now if by_admin else {at: each for at, each in self._listed.items() if at in now}

    def _configured(self, seen: Seen, told: Mapping[str, str]) -> None:
        if self._started_with is not None:
            self._former = (self._limits, seen.at_us + HEARD_OF_US)
            defaults = limits_by_key(self._started_with)
            self._limits = Limits(*(int(told.get(key, default)) for key, default in defaults.items()))

    def _topic_written(self, seen: Seen, topic: str, rows: Mapping[int, ReplicaAssignment]) -> None:
        """A controller may write the node without partitions that it has not read yet: the topic has them no more."""
        for at in [at for at in self._ways if at[0] == topic and at[1] not in rows]:
            del self._ways[at]
        began: list[TopicPartition] = []
        for number, now in rows.items():
            at = (topic, number)
            way = self._way(*at)
            before, ran, way.node = way.node, way.runs, now
            if not before.replicas:
                way.committed, way.since_us = now.origin, seen.at_us
            elif before != now:
                self._check_change(seen, at, before, now)
                state = self.panel.states.get(at)
                told = -1 if state is None else state.leader_epoch
                way.assigned_in.update(dict.fromkeys(without(now.replicas, before.replicas), told))
                if way.runs and (not ran or before.adding != now.adding):
                    began.append(at)
            if not way.runs:
                way.committed = now.replicas
            if not now.is_being_reassigned:
                way.moves_leader = None
        for at in began:
            self._check_limits(seen, at)

    def _check_change(self, seen: Seen, at: TopicPartition, before: ReplicaAssignment, now: ReplicaAssignment) -> None:
        """I11 and I15."""
        way, name = self._ways[at], f"{at[0]}-{at[1]}"
        committed, target = way.committed, set(way.target or ())
        if way.runs:
            if set(now.origin) != set(committed):
                text = f"{name} is to lose or keep {now.origin} in a step, of {committed} that were committed (I11)"
                self.violation(seen, "step-from-elsewhere", (name,), text)
            return
        ran = bool(before.adding or before.removing)
        allowed = [set(committed), set(before.target)] if ran else [set(committed)]
        if not ran and target and not now.target_replicas:  # before KIP-455
            allowed += [set(committed) | target, target]
        if set(now.replicas) not in allowed:
            text = f"{name} has {now.replicas} now; committed was {committed}, and the step was to keep {before.target}"
            self.violation(seen, "not-of-the-step", (name,), f"{text} (I11)")
        elif way.called_back and ran and set(now.replicas) == set(committed) != set(before.target):
            original = before.original_replicas
            wanted = original if set(original) == set(committed) else before.origin
            if now.replicas != wanted:
                text = f"{name} was called back to {now.replicas}; it had {wanted} (I15)"
                self.violation(seen, "order-lost", (name,), text)

    def _check_limits(self, seen: Seen, at: TopicPartition) -> None:
        """I13, when a step begins. A partition that is under way keeps its place for its next steps."""
        name, way = f"{at[0]}-{at[1]}", self._ways[at]
        is_new, way.moves_leader = way.moves_leader is None, self._moves_leader(at, way)
        under_way = [each for each in self._ways.values() if each.moves_leader is not None]
        leading = [each for each in under_way if each.moves_leader and each.runs]

        def most(of: Callable[[Limits], int]) -> int:
            former, until_us = self._former
            return max(of(self._limits), of(former)) if seen.at_us < until_us else of(self._limits)

        replicas = max(most(lambda limits: limits.replica_movements), self._deficit(at, way))
        if len(way.node.adding) > replicas:
            text = f"{name} gets {way.node.adding} in one step; {replicas} may be added at once (I13)"
            self.violation(seen, "too-many-replicas", (name,), text)
        partitions = most(lambda limits: limits.partition_movements)
        if is_new and len(under_way) > partitions:
            text = f"{name} begins while {len(under_way) - 1} are under way; {partitions} may (I13)"
            self.violation(seen, "too-many-partitions", (name,), text)
        if seen.at_us >= self._former[1] and self._limits.replica_movements < UNLIMITED:
            self._check_size(seen, at, replicas)
        leaders = most(lambda limits: limits.leader_movements)
        if way.moves_leader and len(leading) > leaders:
            text = f"{name} begins to move its leader while {len(leading) - 1} do; {leaders} may (I13)"
            self.violation(seen, "too-many-leaders", (name,), text)

    def _check_size(self, seen: Seen, at: TopicPartition, most: int) -> None:
        """I13, of one that knows who is up and in sync: the step that KIP-435 wants, which moves ``most`` replicas."""
        way, state = self._ways[at], self.panel.states.get(at)
        node, final, committed = way.node, way.final, way.committed
        hosts = (STORE, *map(broker_host, dict.fromkeys((*committed, *final))))
        able_us = self.panel.disturbances.undisturbed_since_us(hosts)
        is_up = able_us is not None and seen.at_us - max(able_us, self._brokers_us) > NAMED_WITHIN_US
        in_sync = [] if state is None else [broker for broker in committed if broker in state.isr]
        if not is_up or not way.is_known or any(broker in final and broker not in in_sync for broker in committed):
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
            wanted = "" if (adds, drops) == (len(missing), len(excess)) else "all of it may be one step"
        elif final[0] in missing:
            wanted = "" if final[0] in node.adding and not drops else "its new leader comes first"
        elif (adds < may_add and len(committed) - drops + adds < len(final)) or not may_drop <= drops <= at_most:
            wanted = f"{may_add} may come and {may_drop} go"
        if wanted:
            name = f"{at[0]}-{at[1]}"
            text = f"a step of {name} from {committed} to {final} adds {node.adding} and drops {node.removing}"
            self.violation(seen, "not-the-step", (name,), f"{text}; {wanted} (I13)")

    def _moves_leader(self, at: TopicPartition, way: _Way) -> bool:
        state, node = self.panel.states.get(at), way.node
        if node.target_replicas and node.target_replicas[0] in node.adding and not node.removing:
            return True  # it is there to elect the one that is added
        return state is not None and state.leader in node.removing

    def _deficit(self, at: TopicPartition, way: _Way) -> int:
        """How many replicas are missing to min.insync.replicas, before anything is committed."""
        state = self.panel.states.get(at)
        if state is None or frozenset(way.committed) != way.began_with:
            return 0
        in_sync = [broker for broker in way.committed if broker in state.isr and broker in self.panel.registered]
        return max(0, self._least.get(at[0], 1) - len(in_sync))

    def _state_written(self, at: TopicPartition) -> None:
        """I14: who is taken out of the ISR. A step's end writes the state once before, and then nothing but this."""
        way, before, state = self._ways.get(at), self.panel.state_before, self.panel.states.get(at)
        if way is None:
            return
        gone: list[int] = []
        if before is not None and state is not None and self.panel.was_elected:
            gone = [broker for broker in before.isr if broker not in state.isr and broker in way.node.removing]
        way.taken_out = {**way.taken_out, **dict.fromkeys(gone, before)} if before is not None and gone else {}

    def _replica_moved(self, seen: Seen, fact: ReplicaStateBecame) -> None:
        """I14: the first drop of a step. Whom the controller took for dead has been offline before it is deleted."""
        at = (fact.topic, fact.partition)
        way = self._ways.get(at)
        if way is None or fact.new == ReplicaPhase.OFFLINE.value:
            return  # the write is this
        before, node = way.taken_out.pop(fact.replica, None), way.node
        if before is None or fact.new != ReplicaPhase.DELETION_STARTED.value or way.dropped is node:
            return
        way.dropped = node
        left, least = without(before.isr, node.removing), min(self._least.get(at[0], 1), len(way.final))
        if len(left) < least:
            name = f"{at[0]}-{at[1]}"
            text = f"{name} drops {node.removing}; {left} of its ISR {before.isr} are left, {least} must be (I14)"
            self.violation(seen, "dropped-in-sync", (name,), text)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _was_told(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        way, broker = self._ways.get((fact.topic, fact.partition)), broker_of(seen.actor)
        if way is not None and fact.leader_epoch > way.assigned_in.get(broker, fact.leader_epoch):
            del way.assigned_in[broker]

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        """I11: whose log is deleted."""
        at, broker = (fact.topic, fact.partition), broker_of(seen.actor)
        way = self._ways.get(at)
        if not fact.deleted or way is None or self._may_be_deleted(fact.topic):
            return
        if EPOCH_DURING_DELETE < fact.leader_epoch <= way.assigned_in.get(broker, EPOCH_DURING_DELETE):
            return  # ordered before it was assigned
        stays = way.node.target
        if not way.runs and way.target is not None and set(way.target) < set(way.node.replicas):
            stays = way.target  # before KIP-455
        if broker in stays:
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} deletes its log of {name}, which has {way.node.replicas}, and {stays} are to stay"
            self.violation(seen, "deleted-assigned", (name, seen.actor), f"{text} (I11)")

    def _may_be_deleted(self, topic: str) -> bool:
        """Whether a whole topic goes: it is asked for, and nothing of it is on its way."""
        moves = (way.node.is_being_reassigned for at, way in self._ways.items() if at[0] == topic)
        return topic in self._to_be_deleted and not any(moves)

    # --- the end -----------------------------------------------------------------------------------------------

    def _unfinished(self) -> dict[TopicPartition, _Way]:
        """On their way, with all brokers of their target up."""
        return {
            at: way
            for at, way in self._ways.items()
            if way.node.is_being_reassigned and all(broker in self.panel.registered for broker in way.final)
        }

    @property
    def satisfied(self) -> bool:
        """Whether nothing is on its way that could arrive."""
        return not self._unfinished()

    def finish(self, at_us: int) -> None:
        """Q5: what is still on its way at the end of a run that was given its time to get well."""
        if self._healed is None or at_us <= self._healed.at_us:
            return
        seen, unfinished = self._healed._replace(at_us=at_us), self._unfinished()
        for at, way in self._ways.items():
            name, since_us = f"{at[0]}-{at[1]}", way.silent_us
            if at in unfinished:
                why = way.waits or "for nothing that its controller names"
                text = f"{name} is still on its way to {way.final}: it waits: {why} (Q5)"
                self.violation(seen, "unfinished", (name,), text, liveness=True)
            elif since_us is not None and at_us - max(since_us, self._healed.at_us) > NAMED_WITHIN_US:
                text = f"{name} is on its way at the end, and nobody has named what it waits for (Q5)"
                self.violation(seen, "unnamed", (name,), text, liveness=True)


def listed_in(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Partition -> replicas, as the list in the store asks for; of a list that controllers refuse nothing."""
    try:
        return read_reassignments(data)
    except BadNode:
        return {}
