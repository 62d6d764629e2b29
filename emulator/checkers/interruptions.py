"""A partition without service, or below min ISR, waits for something, and for no longer than that takes.

``emulator.watching.interruptions`` says what each partition waits for. Each wait has a bound. Its clock runs while all
that it needs is up and undisturbed, and begins anew when an answer that a fault took may have timed out.

=====================  ====================================================  =========================================
wait                   needs                                                 bound
=====================  ====================================================  =========================================
a session to end       the coordinator                                       ``session.timeout.ms``
the join phase to      the coordinator, all members that run; no member      ``group.initial.rebalance.delay.ms``
complete               came or went for a session
a member to join, a    the coordinator, that member                          ``max.poll.interval.ms`` and
leader to assign                                                             ``session.timeout.ms``
an owner to take its   the owner                                             ``max.poll.interval.ms``
assignment
a position             the owner, the coordinator, the ISR                   ``request.timeout.ms``
the first records,     the owner, which is not busy, and the ISR             ``max.poll.interval.ms``
or the next
min ISR                the ISR and replicas enough, all registered brokers   ``replica.lag.time.max.ms``, 30 s
=====================  ====================================================  =========================================

``SLACK_US`` is added to each. A member that is busy for longer leaves its group. ``takeover`` bounds elections.
"""

from collections.abc import Sequence

from attrs import frozen

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    RunStarted,
    Seen,
)
from kemu.emulator.watching.interruptions import WELL, Cause, Service
from kemu.protocol.names import STORE, ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import (
    CommitAnswered,
    GroupBecame,
    MemberBecame,
    PartitionHosted,
    PositionSet,
    Processed,
    RecordsAppended,
)
from kemu.protocol.notes.replication import (
    BecameLeader,
    HighWatermarkAdvanced,
    LogDirFailed,
    LogOfAnotherTopic,
    NodeWritten,
    RecordsReplicated,
)

SLACK_US = 15_000_000
"""For everything that no setting bounds: connections, backoffs, messages."""
CAUGHT_UP_US = 30_000_000
"""How long a follower may take to enter the ISR after the last record it copied."""
LOOKS_US = 2_000_000


@frozen
class Timeouts:
    """The longest of each setting in force, in microseconds."""

    session_us: int = 45_000_000
    poll_us: int = 300_000_000
    request_us: int = 30_000_000
    first_join_us: int = 3_000_000
    replica_lag_us: int = 30_000_000


class BoundedWaits(Checker):
    """See the module."""

    name = "interruptions"

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        super().__init__()
        self._timeouts = Timeouts() if timeouts is None else timeouts
        self._next_us = 0
        self._started_us: dict[str, int] = {}
        self._host_changed_us: dict[str, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        """Up to where a partition can be read."""
        self._ends_before: dict[TopicPartition, int] = {}
        """The same when it was last looked."""
        self._reached: dict[Service, int] = {}
        self._reached_before: dict[Service, int] = {}
        self._stuck_us: dict[Service, int] = {}
        """Since when records wait, nothing moved, and the owner was not busy with others."""
        self._long_work_us = self._timeouts.poll_us // 4
        self._busy_until_us: dict[ActorName, int] = {}
        """When a member last ended work of a quarter of ``max.poll.interval.ms``: it polled nothing meanwhile."""
        self._below_us: dict[TopicPartition, int] = {}
        """Partitions below min ISR -> since when; since a follower last copied a record."""
        self._unusable: dict[tuple[str, TopicPartition], None] = {}
        """(host, partition) of replicas that cannot get in sync."""
        self._told: dict[tuple[object, ...], None] = {}
        self._replicated = False
        self.on = {
            **dict.fromkeys((RunStarted, GroupBecame, MemberBecame, CommitAnswered, FaultApplied), self._look),
            **dict.fromkeys((FaultEnded, Healed), self._look),
            **dict.fromkeys((HostDown, HostStarted, HostPaused, HostResumed), self._host),
            PositionSet: self._positioned,
            Processed: self._processed,
            PartitionHosted: self._hosted,
            RecordsAppended: self._appended,
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._leads,
            NodeWritten: self._written,
            RecordsReplicated: self._copied,
            LogDirFailed: self._dir_failed,
            LogOfAnotherTopic: self._kept_out,
        }

    def finish(self, at_us: int) -> None:
        """The last look."""
        if self.panel.now is not None:
            self._look_at_all(self.panel.now._replace(at_us=at_us))

    # --- facts -------------------------------------------------------------------------------------------------

    def _look(self, seen: Seen, fact: object) -> None:
        if seen.at_us >= self._next_us:
            self._look_at_all(seen)
            self._next_us = seen.at_us + LOOKS_US

    def _host(self, seen: Seen, fact: HostDown | HostStarted | HostPaused | HostResumed) -> None:
        self._host_changed_us[fact.host] = seen.at_us
        if isinstance(fact, HostStarted):
            self._started_us[fact.host] = seen.at_us
            for key in [key for key in self._unusable if key[0] == fact.host]:
                del self._unusable[key]
        self._look(seen, fact)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self._reached[fact.group, (fact.topic, fact.partition)] = fact.offset

    def _processed(self, seen: Seen, fact: Processed) -> None:
        self._reached[fact.group, (fact.topic, fact.partition)] = fact.last
        if seen.at_us - fact.started_us > self._long_work_us:
            self._busy_until_us[seen.actor] = seen.at_us

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        self._ends[fact.topic, fact.partition] = fact.end_offset

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if not self._replicated:
            self._ends[fact.topic, fact.partition] = fact.base_offset + fact.count
        if seen.at_us >= self._next_us:
            self._look(seen, fact)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        if self.panel.leaders.get((fact.topic, fact.partition)) == seen.actor:
            self._ends[fact.topic, fact.partition] = fact.high_watermark

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self._ends[fact.topic, fact.partition] = fact.high_watermark

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        self._replicated = True
        at = self.panel.written
        if at is None:
            return
        state = self.panel.states.get(at)
        if state is None:
            self._ends.pop(at, None)
        if state is not None and len(state.isr) < self.panel.min_insync.of(at):
            self._below_us.setdefault(at, seen.at_us)
        else:
            self._below_us.pop(at, None)

    def _copied(self, seen: Seen, fact: RecordsReplicated) -> None:
        if self._below_us and (fact.topic, fact.partition) in self._below_us:
            self._below_us[fact.topic, fact.partition] = seen.at_us

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self._unusable.update(dict.fromkeys((seen.actor, at) for at in fact.partitions))

    def _kept_out(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self._unusable[seen.actor, (fact.topic, fact.partition)] = None

    # --- judging -----------------------------------------------------------------------------------------------

    def _look_at_all(self, seen: Seen) -> None:
        for group in self.panel.interruptions.groups:
            self._look_at_group(seen, group)
        self._look_at_readers(seen.at_us)
        for key in self.panel.interruptions.services:
            self._look_at_service(seen, key)
        for at, since_us in list(self._below_us.items()):
            self._look_at_isr(seen, at, since_us)

    def _look_at_group(self, seen: Seen, name: GroupId) -> None:
        group, watched, limits = self.panel.interruptions.groups[name], self.panel.groups.get(name), self._timeouts
        stage = group.history.last
        if watched is None or stage is None or not watched.coordinator:
            return
        (cause, actor), since_us = stage, group.history.since_us
        needs = [watched.coordinator]
        match cause:
            case Cause.SESSION:
                bound_us = limits.session_us
            case Cause.JOIN_COMPLETION:
                bound_us = limits.first_join_us
                needs += self.panel.running_members(name)
                since_us = max(since_us, group.last_change_us)
                changed_us = max([self._host_changed_us.get(host_of(each), 0) for each in watched.members], default=0)
                if changed_us > max([self._started_us.get(host_of(each), 0) for each in watched.members], default=0):
                    since_us = max(since_us, changed_us + limits.session_us)
            case Cause.JOIN | Cause.SYNC:
                bound_us = limits.poll_us + limits.session_us
                needs.append(actor)
            case _:
                return
        self._judge(seen, (name, cause, actor, since_us), f"group {name}", cause, actor, since_us, bound_us, needs)

    def _look_at_service(self, seen: Seen, key: Service) -> None:
        name, at = key
        cause, actor = self.panel.interruptions.now(key)
        watched, limits = self.panel.groups.get(name), self._timeouts
        since_us = self.panel.interruptions.since_us(key)
        if watched is None or watched.state != "Stable" or not watched.coordinator:
            return
        coordinator = watched.coordinator
        match cause:
            case Cause.SESSION:
                since_us = max(since_us, self._host_changed_us.get(host_of(actor), 0))
                bound_us, needs = limits.session_us, [coordinator]
            case Cause.TAKE_OVER:
                bound_us, needs = limits.poll_us, [actor]
            case Cause.POSITION:
                bound_us, needs = limits.request_us, [actor, coordinator, *self._isr(at)]
            case _ if cause == WELL and key in self._stuck_us:
                cause = Cause.FETCH
                since_us = max(since_us, self._stuck_us[key], self._busy_until_us.get(actor, 0))
                bound_us, needs = limits.poll_us, [actor, *self._isr(at)]
            case _:
                return
        where = f"{at[0]}-{at[1]}"
        self._judge(seen, (key, cause, actor, since_us), f"{where} in {name}", cause, actor, since_us, bound_us, needs)

    def _isr(self, at: TopicPartition) -> list[str]:
        state = self.panel.states.get(at)
        if state is not None:
            return [broker_host(broker) for broker in state.isr]
        leader = self.panel.interruptions.leaders.get(at)
        return [leader.last[1]] if leader is not None and leader.last is not None and leader.last[1] else []

    def _look_at_readers(self, now_us: int) -> None:
        """Which partitions stand still though records waited when it was last looked, and why not for others' sake."""
        interruptions, before = self.panel.interruptions, self._reached_before
        still: dict[Service, ActorName] = {}
        busy: dict[ActorName, None] = {}
        for key in interruptions.services:
            cause, actor = interruptions.now(key)
            reached = self._reached.get(key, 0)
            if cause == WELL and reached < self._ends_before.get(key[1], 0):
                if before.get(key, 0) == reached:
                    still[key] = actor
                else:
                    busy[actor] = None  # it works off what there is of another
        self._stuck_us = {
            key: self._stuck_us.get(key, now_us) if actor not in busy else now_us for key, actor in still.items()
        }
        self._ends_before, self._reached_before = dict(self._ends), dict(self._reached)

    def _look_at_isr(self, seen: Seen, at: TopicPartition, since_us: int) -> None:
        state, assigned = self.panel.states.get(at), self.panel.assigned.get(at)
        if state is None or assigned is None or self.panel.unheard.of(at) is not None:
            return
        brokers = [broker_host(broker) for broker in assigned.replicas if broker in self.panel.registered]
        able = [host for host in brokers if (host, at) not in self._unusable and not self.panel.former.has(host, at)]
        if len(able) < self.panel.min_insync.of(at) or self.panel.leaders.get(at) is None:
            return
        needs = [STORE, *(broker_host(broker) for broker in self.panel.registered)]
        bound_us = self._timeouts.replica_lag_us + CAUGHT_UP_US
        what = f"{at[0]}-{at[1]} has {len(state.isr)} replicas in sync, below min.insync.replicas: it"
        self._judge(seen, (at, since_us), what, "its replicas to be in sync", "", since_us, bound_us, needs)

    def _judge(
        self,
        seen: Seen,
        key: tuple[object, ...],
        what: str,
        cause: str,
        actor: str,
        since_us: int,
        bound_us: int,
        needs: Sequence[str],
    ) -> None:
        """Report a wait that lasts longer than what it waits for may take, once."""
        hosts = tuple(dict.fromkeys(host_of(each) for each in needs))
        undisturbed_us = self.panel.disturbances.undisturbed_since_us(hosts)
        if undisturbed_us is None:
            return
        if undisturbed_us not in [self._started_us.get(host) for host in hosts]:
            undisturbed_us += self._timeouts.request_us  # what a fault took times out
        bound_us += SLACK_US
        if seen.at_us <= max(since_us, undisturbed_us) + bound_us or key in self._told:
            return
        self._told[key] = None
        whom = f" ({actor})" if actor else ""
        lasted = f"since {since_us / 1e6:g} s, for more than {bound_us / 1e6:g} s without a fault"
        self.violation(seen, "unexplained", (what,), f"{what} waits for {cause}{whom} {lasted}", liveness=True)
