"""After the faults every group becomes stable, and no member fails permanently.

- not-at-rest: at some moment after ``Healed``, the group is Stable, and each partition of its topics has one running
  owner.
- member-failed: no member ever fails permanently. An error injected by the
  plan excuses one failure.
- downgraded-group, forgotten-group, forgotten-instance, forgotten-rebalance, inconsistent-members, sync-while-loading,
  unconverted-group, unheard-epoch, unheard-isr, unheard-removal, unheard-state, unreleased-instance,
  untold-coordinator: not-at-rest or member-failed, for a reason of Kafka's own, which ``kemu describe KIND`` explains
  (``findings.STAYS_BLOCKED``).

Every disturbance restarts the bound. A group has additional ``metadata.max.age.ms`` if its leader may not know a
partition yet. One moment is enough, because members slower than ``max.poll.interval.ms`` rebalance for ever. After
``CoreHealed`` only the members of the core are judged. ``group-progress`` judges duties during faults.

Source: Kafka 3.4 ``GroupCoordinator``, ``ConsumerCoordinator``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from kemu.emulator.checkers.base import NEVER_US, Checker
from kemu.emulator.checkers.commits import UNSUBSCRIBE
from kemu.emulator.facts import (
    CoreHealed,
    DiskTailLost,
    FaultApplied,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    MemberReconfigured,
    Seen,
    TopicGrown,
    UnflushedLost,
)
from kemu.emulator.findings import (
    DOWNGRADED_GROUP,
    FORGOTTEN_GROUP,
    FORGOTTEN_INSTANCE,
    FORGOTTEN_REBALANCE,
    INCONSISTENT_MEMBERS,
    MEMBER_FAILED,
    SYNC_WHILE_LOADING,
    UNCONVERTED_GROUP,
    UNHEARD_EPOCH,
    UNHEARD_ISR,
    UNHEARD_REMOVAL,
    UNHEARD_STATE,
    UNRELEASED_INSTANCE,
    UNTOLD_COORDINATOR,
)
from kemu.emulator.scenario.protocols import CLASSIC
from kemu.emulator.watching.epoch_log import Term
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.reconciliations import Reconciliations, no_coordinator
from kemu.emulator.watching.settings import Settings
from kemu.emulator.watching.static_ids import StaticIds
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import LEAVES_FOR_A_WHILE
from kemu.protocol.names import (
    OFFSETS_TOPIC,
    ActorName,
    GroupId,
    MemberId,
    TopicPartition,
    broker_host,
    broker_of,
    host_of,
)
from kemu.protocol.notes.consumer_groups import GroupConverted, MemberReconciled
from kemu.protocol.notes.groups import (
    AnswerInjected,
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupRequestAnswered,
    GroupUnloaded,
    MemberAdded,
    MemberBecame,
    MemberFailed,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    RequestRefused,
)
from kemu.protocol.notes.replication import MetadataCached, PartitionStateBecame, StateChangeRefused
from kemu.protocol.topic_pattern import TopicPattern

REFUSED_BY: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside group.min.session.timeout.ms and "
    "group.max.session.timeout.ms of the brokers",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size of the brokers permits, or "
    "group.consumer.max.size (consumer protocol)",
    ErrorCode.UNRELEASED_INSTANCE_ID: "the former process with its group.instance.id is still a member: it has neither "
    "left nor reached group.consumer.session.timeout.ms (KIP-848)",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "its partition.assignment.strategy has nothing in common with the group's, "
    "or its protocol type is another (stream.rebalancing.mode)",
}
"""Error that rejects a member's setting -> explanation."""
DEFAULT_BOUND_US = 45_000_000 + 300_000_000 + 60_000_000
"""The sum of Kafka 3.9's session.timeout.ms and max.poll.interval.ms and one minute, in us."""
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
"""States of groups of both protocols whose rebalance the coordinator must write."""
SUBSCRIBE, _SUBSCRIBES_TO = "subscribe", " subscribes to "
_MATCHING, _MATCHED_BY_BROKERS = "all that matches ", "all that brokers match to "
"""The plan entry that subscribes an application, and its words."""
DISTURBING = (
    *(Healed, CoreHealed, FaultApplied, HostStarted, HostDown, HostPaused, HostResumed, TopicGrown),
    *(MemberBecame, MemberFailed),
)
"""Types of facts that may restart the bound."""
Subscription = tuple[str, ...] | TopicPattern
_NOTHING: Subscription = ()


def disturbs(fact: object) -> bool:
    """Whether a fact of a type in ``DISTURBING`` restarts the bound."""
    return not isinstance(fact, MemberBecame) or fact.new in ("CLOSED", "FAILED")


class _Group:
    """The state of one group since the last disturbance."""

    def __init__(self) -> None:
        self.generation = -1
        self.assigned: dict[TopicPartition, None] = {}
        """Partitions in the received assignments of the newest generation."""
        self.due_us = 0
        self.why_not_at_rest = ""
        """Explanation why the group has not been at rest yet; "" after rest, and for a group without running
        members."""
        self.judged = False


class Liveness(Checker):
    """Judges groups after the faults.

    ``topics``: subscribed topics, or their pattern, by group. ``max_age_us``: the largest age of a leader's metadata; 0
    if no group waits for metadata.
    """

    name = "liveness"
    kinds = (
        "downgraded-group",
        "forgotten-group",
        "forgotten-instance",
        "forgotten-rebalance",
        "inconsistent-members",
        "member-failed",
        "not-at-rest",
        "sync-while-loading",
        "unconverted-group",
        "unheard-epoch",
        "unheard-isr",
        "unheard-removal",
        "unheard-state",
        "unreleased-instance",
        "untold-coordinator",
    )

    def __init__(
        self,
        bound_us: int = DEFAULT_BOUND_US,
        topics: Mapping[str, Iterable[str] | TopicPattern] | None = None,
        *,
        max_age_us: int = 0,
        follows_target: Callable[[ActorName], bool] = no_coordinator,
        refuses_syncs: Callable[[ActorName], bool] = no_coordinator,
    ) -> None:
        super().__init__()
        self.bound_us = bound_us
        self._max_age_us = max_age_us
        self._refuses_syncs = refuses_syncs
        self._given = {
            group: names if isinstance(names, TopicPattern) else tuple(names) for group, names in (topics or {}).items()
        }
        self._chosen: dict[str, Subscription] = {}
        """Host -> subscription that the plan set for its application, until the host starts again."""
        self._groups: dict[GroupId, _Group] = {}
        self._disturbed_us: int | None = None
        """Time of the last disturbance, in us; None before ``Healed``."""
        self._new_topics: dict[str, None] = {}
        """Topics that grew or are new to a broker, so that a leader may learn late of their partitions."""
        self._answered: dict[tuple[ActorName, ErrorCode], None] = {}
        """(member, error) of errors that the plan injected, until the member fails by the error or its host goes
        down."""
        self._classic: dict[GroupId, None] = {}
        """Groups of the consumer protocol that became classic."""
        self._gone: dict[tuple[GroupId, MemberId], ActorName] = {}
        """Removed member, not added again -> the deposed coordinator that alone removed it, or ""."""
        self._dead: dict[GroupId, None] = {}
        """Groups that the coordinator deleted after it had removed all members."""
        self._has_no_group: dict[MemberId, None] = {}
        """Members that a coordinator answered after it had deleted their group, or while its log lacked the group."""
        self._static: dict[GroupId, dict[MemberId, str]] = {}
        """Group -> member id -> client id of the static members that no coordinator removed."""
        self._ever_static: dict[tuple[GroupId, MemberId], str] = {}
        """(group, static member) -> its client, also after the coordinator removed the member: the log of the next
        coordinator may still have it."""
        self._absent: dict[tuple[GroupId, MemberId], None] = {}
        """Static members that left for a while (KIP-848)."""
        self._log_lost_records = False
        """Whether a disk lost records of a groups' log that brokers do not replicate."""
        self._in_log: dict[GroupId, tuple[int, Term]] = {}
        """Group of the consumer protocol -> (position, term) of a record of the group's log. While the log has this
        record, the log has the group."""
        self._inconsistent: dict[ActorName, None] = {}
        """Members that a coordinator answered with INCONSISTENT_GROUP_PROTOCOL."""
        self._synced_too_soon: dict[MemberId, None] = {}
        """Members whose SyncGroup a coordinator refused because it had not loaded their group."""
        self._unconverted: dict[MemberId, None] = {}
        """Members that were refused because their classic group had no assignor yet."""
        self._reassigned: dict[GroupId, None] = {}
        """Groups of which the plan changed the assignors of a member."""
        self._failed_by_plan: dict[GroupId, str] = {}
        """Group -> the last failure of a member that the plan caused."""
        self._reconciliations = Reconciliations(follows_target=follows_target)
        self.on = {
            GroupLoaded: self._loaded,
            GroupUnloaded: self._group_changed,
            **dict.fromkeys((PartitionStateBecame, StateChangeRefused), self._topics_changed),
            GroupBecame: self._became,
            **dict.fromkeys((PartitionsAssigned, PartitionsRevoked, PartitionsLost), self._group_changed),
            AssignmentReceived: self._received,
            HostDown: self._down,
            MemberFailed: self._failed,
            MemberReconfigured: self._reconfigured,
            GroupConverted: self._converted,
            GroupRequestAnswered: self._request_answered,
            RequestRefused: self._refused,
            AnswerInjected: self._injected,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            MemberReconciled: self._reconciled,
            **dict.fromkeys((DiskTailLost, UnflushedLost), self._lost_records),
        }
        self.shown_to(self._reconciliations.on)
        self.shown_to(dict.fromkeys(DISTURBING, self._disturbed))
        self.shown_to(dict.fromkeys((TopicGrown, MetadataCached), self._topic_learned))
        self.shown_to({FaultApplied: self._subscribes, HostStarted: self._starts})  # before it is a disturbance

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        scenario = settings.scenario
        topics = {name: group.subscription for name, group in scenario.groups.items()}
        follows_target = settings.classic_members_follow_target
        made = cls(
            scenario.stable_within_us,
            topics,
            max_age_us=scenario.metadata_max_age_us,
            follows_target=follows_target,
            refuses_syncs=settings.refuses_syncs_while_loading,
        )
        made.shown_to(settings.on)
        return made

    def attach(self, panel: Panel) -> None:
        """Set the panel that the checker reads."""
        super().attach(panel)
        self._static_ids = StaticIds(panel)
        self.shown_to(self._static_ids.on)

    # --- the bound ---------------------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether every group was at rest at some moment since the last disturbance; False before ``Healed``."""
        return self._disturbed_us is not None and not self._unsettled()

    @property
    def judges_at_us(self) -> int | None:
        """End of the bound after the last disturbance, in us; None if no group remains to judge."""
        if self._disturbed_us is None or all(group.judged for group in self._groups.values()):
            return None
        return max([self._disturbed_us + self.bound_us, *[group.due_us for group in self._unsettled()]])

    def _unsettled(self) -> list[_Group]:
        return [group for group in self._groups.values() if group.why_not_at_rest and not group.judged]

    def look(self, seen: Seen) -> None:
        """Judge groups whose bound is over."""
        self._judge(seen, seen.at_us)

    def finish(self, at_us: int) -> None:
        """Judge groups whose bound ended before the run did."""
        if self._disturbed_us is not None and self.panel.now is not None:
            self._judge(self.panel.now._replace(at_us=at_us), at_us + 1)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        if (self._disturbed_us is None and type(fact) is not Healed) or not disturbs(fact):
            return
        self._disturbed_us = seen.at_us
        judges_us = seen.at_us + self.bound_us
        self.look_at(judges_us + 1)
        for name in self.panel.groups:
            group = self._group(name)
            group.why_not_at_rest = self._why_not_at_rest(name)
            waits = group.generation >= 0 and not self.panel.unrecoverable and self._is_unknown_to_leader(name, group)
            group.due_us = judges_us + (self._max_age_us if waits else 0)

    def _is_unknown_to_leader(self, name: GroupId, group: _Group) -> bool:
        """Whether the newest generation lacks partitions that the leader may not know."""
        lacking = [at for at in self._partitions_of(name) if at not in group.assigned]
        return any(at[0] in self._new_topics for at in lacking)

    def _topic_learned(self, seen: Seen, fact: TopicGrown | MetadataCached) -> None:
        topics = (fact.topic,) if isinstance(fact, TopicGrown) else [each.topic for each in fact.topics]
        self._new_topics.update(dict.fromkeys(topics))

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._answered = {key: None for key in self._answered if host_of(key[0]) != fact.host}
        self._inconsistent = {actor: None for actor in self._inconsistent if host_of(actor) != fact.host}

    # --- subscriptions -----------------------------------------------------------------------------------------

    def _subscribes(self, seen: Seen, fact: FaultApplied) -> None:
        host, _, topics = fact.text.partition(_SUBSCRIBES_TO)
        if fact.kind == UNSUBSCRIBE:
            self._chosen[fact.text.partition(" ")[0]] = _NOTHING
        elif fact.kind == SUBSCRIBE and topics.startswith(_MATCHING):
            self._chosen[host] = TopicPattern(topics.removeprefix(_MATCHING))
        elif fact.kind == SUBSCRIBE and topics.startswith(_MATCHED_BY_BROKERS):
            self._chosen[host] = TopicPattern(topics.removeprefix(_MATCHED_BY_BROKERS), of_broker=True)
        elif fact.kind == SUBSCRIBE:
            self._chosen[host] = tuple(topics.split(", "))

    def _starts(self, seen: Seen, fact: HostStarted) -> None:
        self._chosen.pop(fact.host, None)

    def _subscribed(self, name: GroupId) -> list[ActorName]:
        """Running members whose application is subscribed to at least one topic."""
        running = self.panel.running_members(name)
        return [each for each in running if self._chosen.get(host_of(each)) != _NOTHING] if self._chosen else running

    def _subscriptions(self, name: GroupId) -> list[Subscription]:
        """The subscriptions of running members."""
        given = self._given.get(name)
        if given is None:
            return [tuple(dict.fromkeys(at[0] for at in self._group(name).assigned))]
        return [self._chosen.get(host_of(each), given) for each in self._subscribed(name)] if self._chosen else [given]

    # --- groups ------------------------------------------------------------------------------------------------

    def _group(self, name: GroupId) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        if fact.generation != group.generation:
            group.generation, group.assigned = fact.generation, {}
        group.assigned.update(dict.fromkeys(fact.partitions))
        records = self.panel.logs.of(self.panel.log_of(fact.group)).records
        if fact.group in self.consumer_protocol_groups and records.end and self._has_lost(fact.group, default=True):
            self._in_log[fact.group] = records.end - 1, records.term_at(records.end - 1)

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.new == "PreparingRebalance":  # a classic member joined an empty group of the consumer protocol
            self._classic[fact.group] = None
        elif fact.new in ("Assigning", "Reconciling"):  # the group is one of the consumer protocol
            self._classic.pop(fact.group, None)
        if self.panel.is_current(seen):
            self._dead.pop(fact.group, None)
            if fact.new == "Dead":
                self._dead[fact.group] = None
        self._group_changed(seen, fact)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        clients = [(member_id, self._ever_static.get((fact.group, member_id))) for member_id in fact.members]
        self._static[fact.group] = {member_id: client for member_id, client in clients if client is not None}
        self._group_changed(seen, fact)

    def _group_changed(self, seen: Seen, fact: Any) -> None:
        group = self._groups.get(fact.group)
        if group is not None and group.why_not_at_rest:
            group.why_not_at_rest = self._why_not_at_rest(fact.group)

    def _topics_changed(self, seen: Seen, fact: PartitionStateBecame | StateChangeRefused) -> None:
        for name, group in self._groups.items():
            if group.why_not_at_rest:
                group.why_not_at_rest = self._why_not_at_rest(name)

    def _partitions_of(self, name: GroupId) -> list[TopicPartition]:
        """The partitions that the group must own: no metadata has a partition whose state the controller lost."""
        holdings = self.panel.topics_there()
        topics = [
            topic
            for each in self._subscriptions(name)
            for topic in (each.among(holdings) if isinstance(each, TopicPattern) else each)
        ]
        counts = {topic: self.panel.topics.get(topic, 0) for topic in topics}
        known = [(topic, number) for topic, count in counts.items() for number in range(count)]
        return [at for at in known if not self.panel.unknown_states.has(at)]

    def _owners(self, name: GroupId) -> Counter[TopicPartition]:
        """Partition -> number of owning members on running hosts that do not stay faulty."""
        holdings = [each for each in self.panel.holdings.values() if each.group == name and not each.has_left]
        return Counter(at for each in holdings if host_of(each.actor) not in self.panel.away for at in each.owned)

    def _why_not_at_rest(self, name: GroupId) -> str:
        """Explanation why the group is not at rest; "" for a group at rest."""
        if not self._subscribed(name):
            return ""
        watched, owners, wanted = self.panel.groups[name], self._owners(name), len(self._partitions_of(name))
        state = watched.state if watched.loaded else "unloaded"
        if state != "Stable":
            return f"the group is {state}"
        shared = sum(count > 1 for count in owners.values())
        if shared:
            return f"{shared} partitions have more than one owner"
        # a pattern may match no topic
        needed = min(not isinstance(each, TopicPattern) for each in self._subscriptions(name))
        return "" if len(owners) >= max(wanted, needed) else f"{len(owners)} of {wanted} partitions are owned"

    def idle(self) -> Iterator[tuple[GroupId, int]]:
        """Yield (group, number of waiting records) for each group whose members processed nothing."""
        worked = {name for name, _, progress in self.panel.progress if progress.done.by_term}
        for name, watched in self.panel.groups.items():
            waiting = sum([self.panel.logs.of(at).records.end for at in self._partitions_of(name)])
            if waiting and name not in worked and watched.members:
                yield name, waiting

    # --- members that fail ---------------------------------------------------------------------------------------

    def _injected(self, seen: Seen, fact: AnswerInjected) -> None:
        self._answered[fact.sender, fact.error] = None

    def _failed(self, seen: Seen, fact: MemberFailed) -> None:
        parts = (fact.error.name, fact.why, REFUSED_BY.get(fact.error, ""))
        why = "; ".join(dict.fromkeys(part for part in parts if part))
        text = f"{seen.actor} of group {fact.group} failed for good: {why}"
        if (seen.actor, fact.error) in self._answered:
            del self._answered[seen.actor, fact.error]
            self._failed_by_plan[fact.group] = f"{text}, as the plan asked"
        else:
            self.violation(seen, self._kind_of(seen.actor, fact), (fact.group, seen.actor), text, liveness=True)

    def _kind_of(self, actor: ActorName, fact: MemberFailed) -> str:
        """The kind of a failure: MEMBER_FAILED unless Kafka's own members fail so."""
        inconsistent = fact.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and actor in self._inconsistent
        if inconsistent and fact.group in self._reassigned:
            return INCONSISTENT_MEMBERS
        if self._is_forgotten(actor, fact):
            return FORGOTTEN_INSTANCE
        if fact.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and fact.member_id in self._synced_too_soon:
            return SYNC_WHILE_LOADING
        if fact.group not in self.consumer_protocol_groups:
            return MEMBER_FAILED
        static, unreleased = self._static.get(fact.group, {}), fact.error is ErrorCode.UNRELEASED_INSTANCE_ID
        present = [client for member_id, client in static.items() if (fact.group, member_id) not in self._absent]
        if unreleased and host_of(actor) in present:
            return UNRELEASED_INSTANCE
        if fact.error is ErrorCode.UNKNOWN_SERVER_ERROR and fact.member_id in self._unconverted:
            return UNCONVERTED_GROUP
        if fact.error is ErrorCode.UNKNOWN_MEMBER_ID and fact.why.startswith("OffsetFetch"):  # a heartbeat only fences
            known = self.panel.memberships.groups.get(fact.group)
            return MEMBER_FAILED if known is None or fact.member_id in known.entries else UNHEARD_REMOVAL
        if fact.error is not ErrorCode.GROUP_ID_NOT_FOUND:
            return MEMBER_FAILED
        remover = self._gone.get((fact.group, fact.member_id))
        if fact.group in self._classic and remover in ("", self.panel.coordinators.asked_by(actor)):
            return DOWNGRADED_GROUP
        is_forgotten = fact.member_id in self._has_no_group or self._has_lost(
            fact.group, default=self._log_lost_records
        )
        return FORGOTTEN_GROUP if is_forgotten else MEMBER_FAILED

    def _has_lost(self, group: GroupId, *, default: bool) -> bool:
        """Whether the group's log has lost a group of the consumer protocol.

        A member learns its assignment when the records of the group are in the log, so the record before the end of
        the log at this time is known. ``default``: the result without such a record.
        """
        at = self.panel.log_of(group)
        if at is None or group not in self._in_log:
            return default
        position, term = self._in_log[group]
        return self.panel.logs.of(at).records.term_at(position) != term

    def _converted(self, seen: Seen, fact: GroupConverted) -> None:
        if fact.protocol == CLASSIC:
            self._classic[fact.group] = None
        else:
            self._classic.pop(fact.group, None)

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        if fact.assignors:
            self._reassigned[self.panel.memberships.group_of.get(fact.host, "")] = None

    def _refused(self, seen: Seen, fact: RequestRefused) -> None:
        if (
            fact.api == "ConsumerGroupHeartbeat" and fact.error.retriable
        ):  # the leave was not written: the member remains
            self._absent.pop((fact.group, fact.member_id), None)
        if fact.api == "ConsumerGroupHeartbeat" and fact.error is ErrorCode.GROUP_ID_NOT_FOUND:
            is_deleted = fact.group in self._dead and self._gone.get((fact.group, fact.member_id)) == ""
            if is_deleted or self._has_lost(fact.group, default=self._log_lost_records):
                self._has_no_group[fact.member_id] = None
        known = self.panel.memberships.groups.get(fact.group)
        is_first = known is not None and known.state == "PreparingRebalance" and known.began_empty
        if fact.api == "ConsumerGroupHeartbeat" and fact.error is ErrorCode.UNKNOWN_SERVER_ERROR and is_first:
            self._unconverted[fact.member_id] = None
        if fact.api == "SyncGroup":
            self._sync_refused(seen, fact)

    def _sync_refused(self, seen: Seen, fact: RequestRefused) -> None:
        watched = self.panel.groups.get(fact.group)
        is_loaded = watched is not None and watched.loaded and watched.coordinator == seen.actor
        loads = fact.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not is_loaded
        self._synced_too_soon.pop(fact.member_id, None)
        if loads and self._refuses_syncs(seen.actor):
            self._synced_too_soon[fact.member_id] = None

    def _request_answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        if fact.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._inconsistent[fact.client] = None

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        self._gone.pop((fact.group, fact.member_id), None)
        if fact.instance_id is not None:
            self._static.setdefault(fact.group, {})[fact.member_id] = fact.client_id
            self._ever_static[fact.group, fact.member_id] = fact.client_id

    def _reconciled(self, seen: Seen, fact: MemberReconciled) -> None:
        if fact.epoch == LEAVES_FOR_A_WHILE:
            self._absent[fact.group, fact.member_id] = None
        else:
            self._absent.pop((fact.group, fact.member_id), None)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        if not self.panel.is_current(seen):  # the coordinator's successor still has the member (kafka-4.0, seed 314)
            self._gone.setdefault((fact.group, fact.member_id), seen.actor)
            return
        self._gone[fact.group, fact.member_id] = ""
        self._static.get(fact.group, {}).pop(fact.member_id, None)

    def _lost_records(self, seen: Seen, fact: DiskTailLost | UnflushedLost) -> None:
        logs = (fact.log,) if isinstance(fact, DiskTailLost) else tuple(name for name, _, _ in fact.logs)
        self._log_lost_records = self._log_lost_records or any(each.startswith(OFFSETS_TOPIC) for each in logs)

    def _is_forgotten(self, actor: ActorName, fact: MemberFailed) -> bool:
        """Whether a coordinator fences a member because the group's log lacks the member's id."""
        holding = self.panel.holdings.get(actor)
        ids = (fact.member_id, fact.member_id if holding is None else holding.member_id)
        fenced = fact.error is ErrorCode.FENCED_INSTANCE_ID
        return fenced and any(self._static_ids.is_forgotten(fact.group, each) for each in ids)

    def killed(self) -> Iterator[tuple[GroupId, str]]:
        """Yield (group, injected failure) for each group that has lost all running members by an injected failure."""
        return ((group, text) for group, text in self._failed_by_plan.items() if not self.panel.running_members(group))

    # --- judging -----------------------------------------------------------------------------------------------

    def _judge(self, seen: Seen, now_us: int) -> None:
        """Judge each group once, at the end of its bound."""
        waiting = [(name, group) for name, group in self._groups.items() if not group.judged]
        for name, group in waiting:
            group.judged = group.due_us < now_us or not group.why_not_at_rest
            if group.judged and group.why_not_at_rest:
                self._judge_group(seen, name, group)
        self.look_at(min([group.due_us + 1 for _, group in waiting if not group.judged], default=NEVER_US))

    def _judge_group(self, seen: Seen, name: GroupId, group: _Group) -> None:
        kind, why = self._kafka_reason(name)
        text = f"group {name} did not come to rest within {self.bound_us / 1e6:g} s: {group.why_not_at_rest}"
        self.violation(seen, kind, (name,), f"{text}; {why}" if why else text, liveness=True)

    def _kafka_reason(self, name: GroupId) -> tuple[str, str]:
        """(kind, reason) of a group that is not at rest; the reason is "" unless Kafka itself leaves the group in
        this state.
        """
        if why := self._removed_coordinator(name):
            return UNTOLD_COORDINATOR, why
        if why := self._unknown_isr(name):
            return UNHEARD_ISR, why
        at = self.panel.log_of(name)
        if at is not None and self.panel.unknown_states.has(at):
            return UNHEARD_STATE, f"the controller does not know the state of {at[0]}-{at[1]}, which it wrote"
        known = self.panel.memberships.groups.get(name)
        if known is not None and self._reconciliations.hears_of_no_epoch(known):
            return UNHEARD_EPOCH, "all its members are classic, and none of them hears of the group's new epoch"
        if why := self._forgotten_rebalance(name):
            return FORGOTTEN_REBALANCE, why
        return "not-at-rest", ""

    def _forgotten_rebalance(self, name: GroupId) -> str:
        """Explain partitions without an owner, which a static member should own. The member rejoined before the
        follow-up rebalance, with another subscription, or converted the group without a rebalance; "" for other causes.
        """
        owners, generation = self._owners(name), self._group(name).generation
        if self.panel.groups[name].state != "Stable" or any(count > 1 for count in owners.values()):
            return ""
        forgotten = self.panel.forgotten_rebalances.of(name, generation)
        unowned = [at for at in self._partitions_of(name) if at not in owners]
        given = self.panel.forgotten_rebalances.given_since_conversion(name, generation)
        if unowned and given is not None and not any(at in given for at in unowned):
            return f"a static member converted the group without a rebalance in generation {generation}"
        if not unowned or any(at not in forgotten for at in unowned):
            return ""
        who = ", ".join(dict.fromkeys(forgotten[at] for at in unowned))
        why = f"revoked, did not know or had not subscribed to them in generation {generation}"
        return f"{who} {why}, and rejoined before the next one"

    def _removed_coordinator(self, name: GroupId) -> str:
        """Explain a group whose members ask a coordinator that lost its replica of the group's log; "" for other
        groups.
        """
        at = self.panel.log_of(name)
        state, assigned = (None, None) if at is None else (self.panel.states.get(at), self.panel.assigned.get(at))
        if at is None or state is None or assigned is None:
            return ""
        asked = [self.panel.coordinators.asked_by(member) for member in self.panel.running_members(name)]
        for host in dict.fromkeys(host_of(each) for each in asked if each):
            epoch, leads = self.panel.roles.get((host, at), (-1, False))
            if leads and broker_of(host) not in assigned.replicas:
                now = f"the store has {broker_host(state.leader)} in epoch {state.leader_epoch}"
                return f"{host} leads {at[0]}-{at[1]} in epoch {epoch}, but {now}"
        return ""

    def _unknown_isr(self, name: GroupId) -> str:
        """Explain a rebalance that cannot be written before the group's log has another leader epoch; "" for other
        causes.
        """
        at, watched = self.panel.log_of(name), self.panel.groups[name]
        if at is None or watched.state not in _REBALANCING:
            return ""
        unknown, state = self.panel.unknown_isrs.of(at), self.panel.states.get(at)
        if unknown is None or not unknown.leader_waits or state is None:
            return ""
        leader, least = broker_host(state.leader), self.panel.min_insync.of(at)
        if host_of(watched.coordinator) != leader or len(unknown.believed_isr) >= least:
            return ""
        return (
            f"{leader} leads {at[0]}-{at[1]} with the ISR {list(unknown.believed_isr)}, below min.insync.replicas"
            f" ({least}), and waits for another leader epoch; the store has {list(state.isr)}"
        )
