"""Reassignments: only what a step adds and drops changes, no more at a time than allowed, and they end.

Theory (numbers of the table in ``emulator.checkers``; what is committed is the list that the store has while no step
runs):

* I11: while a step runs the store has the committed replicas and those that it adds; when it ends, what the step keeps,
  or, called back, the committed ones. A replica's log is deleted only when the replica goes, or its topic, which
  does not before all of its partitions have arrived. A broker that is slow to hear may obey the order of a reassignment
  before, given when the replica was to go, until it hears that it has the replica again: one controller's orders wait
  for each other (``RequestSendThread``), and since 2.6 StopReplica has the leader epoch of its time.
* I13: a step adds at most ``reassignment.max.concurrent.replica.movements`` replicas (or as many as are missing to
  ``min.insync.replicas``, in the first step); a partition begins, and a leader is moved, only while at most the
  allowed number of others is under way. A limit that changes counts for steps that begin a moment later.
* I14: dropping replicas that are in sync leaves ``min.insync.replicas`` of them, or as many as the target has. A step
  drops whom its controller deletes at once; who only goes offline is dead for the controller, whether he is so or (it
  does not know the registration that followed) not.
* I15: a reassignment that is called back before anything was committed leaves the original list in its order.
* Q5: when all brokers of their targets are up, reassignments come to an end; until then their controller names what
  they wait for (a controller that goes on writing to the store and says nothing of a partition has forgotten it; a new
  one has nothing to say before it is ready).

Before KIP-455 the store does not tell what comes and goes: the target is the one that the controller took up.
"""

from collections.abc import Mapping

from kemu.actors.controller.context import ReplicaPhase
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Healed, Seen, TopicReplicated
from kemu.protocol.dynamic_configs import MIN_INSYNC_REPLICAS
from kemu.protocol.messages.control import EPOCH_DURING_DELETE
from kemu.protocol.names import STORE, TopicPartition, broker_of, host_of
from kemu.protocol.nodes import (
    BROKER_DEFAULTS,
    DELETE_TOPICS,
    TOPIC_CONFIGS,
    PartitionState,
    ReplicaAssignment,
    read_config,
    read_topic,
)
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
from kemu.protocol.reassign.moves import Limits, limits_by_key, without

NO_LIMITS = Limits()
HEARD_OF_US = 2_000_000
"""How long a controller may go on by limits that were changed."""
NAMED_WITHIN_US = 10_000_000
"""How long a controller may leave unsaid what a partition waits for. No fault hits it or its link to the store then."""


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
        self._nodes: dict[TopicPartition, ReplicaAssignment] = {}
        self._committed: dict[TopicPartition, tuple[int, ...]] = {}
        """What was assigned when no step ran."""
        self._targets: dict[TopicPartition, tuple[int, ...]] = {}
        """Where a controller takes a partition."""
        self._called_back: dict[TopicPartition, None] = {}
        """Those that are to go back because somebody cancelled."""
        self._began_with: dict[TopicPartition, frozenset[int]] = {}
        """What was assigned when the reassignment was asked for."""
        self._least: dict[str, int] = {}
        self._to_be_deleted: dict[str, None] = {}
        self._waits: dict[TopicPartition, str] = {}
        """Why a step is not over, as its controller said last."""
        self._silent: dict[TopicPartition, int] = {}
        """Partitions on their way, and since when nobody names what they wait for."""
        self._controller = ""
        self._gets_ready = False
        """Whether that controller still reads the cluster and gets its state machines up."""
        self._under_way: dict[TopicPartition, bool] = {}
        """Partitions that have a place; whether their last step moves the leader."""
        self._dropped: dict[TopicPartition, ReplicaAssignment] = {}
        """The step whose drops were checked."""
        self._taken_out: dict[tuple[TopicPartition, int], PartitionState] = {}
        """Replicas that are to go and were taken out of the ISR by their controller -> the state before."""
        self._assigned_in: dict[tuple[TopicPartition, int], int] = {}
        """Replicas that were assigned, and whose brokers were not told yet -> the leader epoch until then."""
        self._healed: Seen | None = None
        self.on = {
            NodeWritten: self._written,
            StoreTookOver: self._store_serves,
            TopicReplicated: self._topic,
            ReassignmentStarted: self._started,
            ReassignmentStepStarted: self._step_started,
            ReassignmentBlocked: self._blocked,
            ReassignmentWaits: self._waits_now,
            ReassignmentStepCommitted: self._committed_step,
            ReassignmentFinished: self._finished,
            BecameController: self._controls,
            ControllerReady: self._is_ready,
            ReplicaStateBecame: self._replica_moved,
            BecameLeader: self._was_told,
            BecameFollower: self._was_told,
            ReplicaStopped: self._stopped,
            Healed: self._heal,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._least[fact.topic] = fact.min_isr

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen

    # --- what controllers say ----------------------------------------------------------------------------------

    def _started(self, seen: Seen, fact: ReassignmentStarted) -> None:
        at = (fact.topic, fact.partition)
        if not fact.resumed or at not in self._began_with:
            self._began_with[at] = frozenset(self._committed.get(at, fact.replicas))
        self._targets[at] = fact.target
        if not fact.resumed:
            self._called_back.pop(at, None)
            if fact.called_back:
                self._called_back[at] = None
        self._silent[at] = seen.at_us
        node = self._nodes.get(at)
        if fact.resumed and node is not None and not _runs(node):
            self._under_way.pop(at, None)  # a new controller knows no places but those of steps that run

    def _step_started(self, seen: Seen, fact: ReassignmentStepStarted) -> None:
        self._waits[fact.topic, fact.partition] = fact.waits_for
        if fact.waits_for:
            self._silent.pop((fact.topic, fact.partition), None)

    def _waits_now(self, seen: Seen, fact: ReassignmentWaits) -> None:
        self._waits[fact.topic, fact.partition] = fact.why
        self._silent.pop((fact.topic, fact.partition), None)

    def _committed_step(self, seen: Seen, fact: ReassignmentStepCommitted) -> None:
        self._waits.pop((fact.topic, fact.partition), None)
        self._silent[fact.topic, fact.partition] = seen.at_us

    def _finished(self, seen: Seen, fact: ReassignmentFinished) -> None:
        self._silent.pop((fact.topic, fact.partition), None)

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        """A new controller has everything to say anew; what never reached the store it does not know."""
        self._controller = seen.actor
        self._gets_ready = True
        self._waits = {}
        self._taken_out = {}
        self._silent = {at: seen.at_us for at, node in self._nodes.items() if node.is_being_reassigned}

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        if seen.actor == self._controller:
            self._gets_ready = False
            self._silent = dict.fromkeys(self._silent, seen.at_us)

    def _store_serves(self, seen: Seen, fact: StoreTookOver) -> None:
        """While there was no store its controller could begin nothing, and waited for nothing else."""
        self._silent = dict.fromkeys(self._silent, seen.at_us)

    def _blocked(self, seen: Seen, fact: ReassignmentBlocked) -> None:
        self._under_way.pop((fact.topic, fact.partition), None)
        self._waits[fact.topic, fact.partition] = fact.why or "no broker that could get a replica is up"
        self._silent.pop((fact.topic, fact.partition), None)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        topic = self.panel.written_topic
        if self._silent and fact.client == self._controller and not self._gets_ready and fact.what != "deleted":
            self._check_named(seen)  # its session's end deletes, too
        if self.panel.written is not None:
            self._state_written(seen, self.panel.written)
        elif topic and fact.what == "deleted":
            self._to_be_deleted.pop(topic, None)
            for at in [at for at in self._nodes if at[0] == topic]:
                self._forget(at)
        elif topic:
            self._topic_written(seen, topic, read_topic(fact.data))
        elif fact.path.startswith(f"{DELETE_TOPICS}/"):
            self._to_be_deleted[fact.path.rpartition("/")[2]] = None
        elif fact.path == BROKER_DEFAULTS:
            self._configured(seen, read_config(fact.data) if fact.what != "deleted" else {})
        elif fact.path.startswith(f"{TOPIC_CONFIGS}/") and fact.what != "deleted":
            least = read_config(fact.data).get(MIN_INSYNC_REPLICAS)
            if least is not None:
                self._least[fact.path.rpartition("/")[2]] = int(least)

    def _check_named(self, seen: Seen) -> None:
        parties = (STORE, host_of(self._controller))
        able_us = self.panel.disturbances.undisturbed_since_us(parties)
        for at, since_us in list(self._silent.items()) if able_us is not None else ():
            if seen.at_us - max(since_us, able_us or 0) > NAMED_WITHIN_US:
                del self._silent[at]
                name = f"{at[0]}-{at[1]}"
                text = f"{name} is on its way, and {self._controller} has not"
                text += f" named for {NAMED_WITHIN_US // 1_000_000} s what it waits for (Q5)"
                self.violation(seen, "unnamed", (name,), text)

    def _forget(self, at: TopicPartition) -> None:
        del self._nodes[at], self._committed[at]
        self._targets.pop(at, None)
        self._called_back.pop(at, None)
        self._began_with.pop(at, None)
        self._waits.pop(at, None)
        self._silent.pop(at, None)
        self._under_way.pop(at, None)
        self._dropped.pop(at, None)
        for key in [key for key in self._assigned_in if key[0] == at]:
            del self._assigned_in[key]

    def _configured(self, seen: Seen, told: Mapping[str, str]) -> None:
        if self._started_with is None:
            return
        self._former = (self._limits, seen.at_us + HEARD_OF_US)
        defaults = limits_by_key(self._started_with)
        self._limits = Limits(*(int(told.get(key, default)) for key, default in defaults.items()))

    def _topic_written(self, seen: Seen, topic: str, rows: Mapping[int, ReplicaAssignment]) -> None:
        began: list[TopicPartition] = []
        for number, now in rows.items():
            at = (topic, number)
            before, self._nodes[at] = self._nodes.get(at), now
            if before is None:
                self._committed[at] = now.origin
            elif before != now:
                self._changed(seen, at, before, now)
                state = self.panel.states.get(at)
                for broker in without(now.replicas, before.replicas):
                    self._assigned_in[at, broker] = -1 if state is None else state.leader_epoch
                if _runs(now) and (not _runs(before) or before.adding != now.adding):
                    began.append(at)
            if not _runs(now):
                self._committed[at] = now.replicas
            if not now.is_being_reassigned:
                self._under_way.pop(at, None)
        for at in began:
            self._check_limits(seen, at)

    def _changed(self, seen: Seen, at: TopicPartition, before: ReplicaAssignment, now: ReplicaAssignment) -> None:
        """I11 and I15."""
        committed, name = self._committed[at], f"{at[0]}-{at[1]}"
        if _runs(now):
            if set(now.origin) != set(committed):
                text = f"{name} is to lose or keep {now.origin} in a step, of {committed} that were committed (I11)"
                self.violation(seen, "step-from-elsewhere", (name,), text)
            return
        allowed = [set(committed)]
        if _runs(before):
            allowed.append(set(before.target))
        elif at in self._targets and not now.target_replicas:  # before KIP-455
            allowed += [set(committed) | set(self._targets[at]), set(self._targets[at])]
        if set(now.replicas) not in allowed:
            text = f"{name} has {now.replicas} now; committed was {committed}, and the step was to keep {before.target}"
            self.violation(seen, "not-of-the-step", (name,), f"{text} (I11)")
        elif at in self._called_back and _runs(before) and set(now.replicas) == set(committed) != set(before.target):
            original = before.original_replicas
            wanted = original if set(original) == set(committed) else before.origin
            if now.replicas != wanted:
                text = f"{name} was called back to {now.replicas}; it had {wanted} (I15)"
                self.violation(seen, "order-lost", (name,), text)

    def _check_limits(self, seen: Seen, at: TopicPartition) -> None:
        """I13, when a step begins. A partition that is under way keeps its place for its next steps."""
        is_new = at not in self._under_way
        self._under_way[at] = self._leader_goes(at)
        former, until_us = self._former
        now = self._limits
        if seen.at_us < until_us:
            now = Limits(*(max(pair) for pair in zip(_numbers(now), _numbers(former), strict=True)))
        if now == NO_LIMITS:
            return
        name, node = f"{at[0]}-{at[1]}", self._nodes[at]
        most = max(now.replica_movements, self._deficit(at))
        if len(node.adding) > most:
            text = f"{name} gets {node.adding} in one step; {most} may be added at once (I13)"
            self.violation(seen, "too-many-replicas", (name,), text)
        if is_new and len(self._under_way) > now.partition_movements:
            text = f"{name} begins while {len(self._under_way) - 1} are under way; {now.partition_movements} may (I13)"
            self.violation(seen, "too-many-partitions", (name,), text)
        leading = [each for each, moves in self._under_way.items() if moves and _runs(self._nodes[each])]
        if self._under_way[at] and len(leading) > now.leader_movements:
            text = f"{name} begins to move its leader while {len(leading) - 1} do; {now.leader_movements} may (I13)"
            self.violation(seen, "too-many-leaders", (name,), text)

    def _leader_goes(self, at: TopicPartition) -> bool:
        state, node = self.panel.states.get(at), self._nodes[at]
        if node.target_replicas and node.target_replicas[0] in node.adding and not node.removing:
            return True  # it is there to elect the one that is added
        return state is not None and state.leader in node.removing

    def _deficit(self, at: TopicPartition) -> int:
        """How many replicas are missing to min.insync.replicas, before anything is committed."""
        state, committed = self.panel.states.get(at), self._committed[at]
        if state is None or set(committed) != self._began_with.get(at, frozenset()):
            return 0
        in_sync = [broker for broker in committed if broker in state.isr and broker in self.panel.registered]
        return max(0, self._least.get(at[0], 1) - len(in_sync))

    def _state_written(self, seen: Seen, at: TopicPartition) -> None:
        """I14: who is taken out of the ISR. A step's end writes the state once before, and then nothing but this."""
        node, before = self._nodes.get(at), self.panel.state_before
        state = self.panel.states.get(at)
        gone: list[int] = []
        if node is not None and before is not None and state is not None and self.panel.was_elected:
            gone = [broker for broker in before.isr if broker not in state.isr and broker in node.removing]
        if before is not None and gone:
            self._taken_out.update(((at, broker), before) for broker in gone)
        elif self._taken_out:
            self._taken_out = {each: state for each, state in self._taken_out.items() if each[0] != at}

    def _replica_moved(self, seen: Seen, fact: ReplicaStateBecame) -> None:
        """I14: the first drop of a step. Whom the controller took for dead has been offline before it is deleted."""
        at = (fact.topic, fact.partition)
        if fact.new == ReplicaPhase.OFFLINE.value:
            return  # the write is this
        before, node = self._taken_out.pop((at, fact.replica), None), self._nodes.get(at)
        if before is None or node is None or fact.new != ReplicaPhase.DELETION_STARTED.value:
            return
        if self._dropped.get(at) is not node:
            self._dropped[at] = node
            self._check_left(seen, at, node, before)

    def _check_left(self, seen: Seen, at: TopicPartition, node: ReplicaAssignment, before: PartitionState) -> None:
        left = without(before.isr, node.removing)
        final = node.target_replicas or node.target
        least = min(self._least.get(at[0], 1), len(final))
        if len(left) < least:
            name = f"{at[0]}-{at[1]}"
            text = f"{name} drops {node.removing}; {left} of its ISR {before.isr} are left, {least} must be (I14)"
            self.violation(seen, "dropped-in-sync", (name,), text)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _was_told(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        key = (fact.topic, fact.partition), broker_of(seen.actor)
        if key in self._assigned_in and fact.leader_epoch > self._assigned_in[key]:
            del self._assigned_in[key]

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        """I11: whose log is deleted."""
        at, broker = (fact.topic, fact.partition), broker_of(seen.actor)
        node = self._nodes.get(at)
        if not fact.deleted or node is None or self._may_be_deleted(fact.topic):
            return
        if EPOCH_DURING_DELETE < fact.leader_epoch <= self._assigned_in.get((at, broker), EPOCH_DURING_DELETE):
            return  # ordered before it was assigned
        stays = node.target
        if not _runs(node) and at in self._targets and set(self._targets[at]) < set(node.replicas):
            stays = self._targets[at]  # before KIP-455
        if broker in stays:
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} deletes its log of {name}, which has {node.replicas}, and {stays} are to stay (I11)"
            self.violation(seen, "deleted-assigned", (name, seen.actor), text)

    def _may_be_deleted(self, topic: str) -> bool:
        """Whether a whole topic goes: it is asked for, and nothing of it is on its way."""
        moves = (node.is_being_reassigned for at, node in self._nodes.items() if at[0] == topic)
        return topic in self._to_be_deleted and not any(moves)

    # --- the end -----------------------------------------------------------------------------------------------

    def _unfinished(self) -> list[TopicPartition]:
        """On their way, with all brokers of their target up."""
        found = []
        for at, node in self._nodes.items():
            final = node.target_replicas or node.target
            if node.is_being_reassigned and all(broker in self.panel.registered for broker in final):
                found.append(at)
        return found

    @property
    def satisfied(self) -> bool:
        """Whether nothing is on its way that could arrive."""
        return not self._unfinished()

    def finish(self, at_us: int) -> None:
        """Q5: what is still on its way at the end of a run that was given its time to get well."""
        if self._healed is None or at_us <= self._healed.at_us:
            return
        unfinished = self._unfinished()
        for at, since_us in self._silent.items():  # it need not arrive, but there must be a reason
            if at not in unfinished and at_us - max(since_us, self._healed.at_us) > NAMED_WITHIN_US:
                name = f"{at[0]}-{at[1]}"
                text = f"{name} is on its way at the end, and nobody has named what it waits for (Q5)"
                self.violation(self._healed._replace(at_us=at_us), "unnamed", (name,), text, liveness=True)
        for at in unfinished:
            name, node = f"{at[0]}-{at[1]}", self._nodes[at]
            why = self._waits.get(at) or "for nothing that its controller names"
            text = f"{name} is still on its way to {node.target_replicas or node.target}: it waits: {why} (Q5)"
            seen = self._healed._replace(at_us=at_us)
            self.violation(seen, "unfinished", (name,), text, liveness=True)


def _runs(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding or assignment.removing)


def _numbers(limits: Limits) -> tuple[int, int, int]:
    return limits.replica_movements, limits.partition_movements, limits.leader_movements
