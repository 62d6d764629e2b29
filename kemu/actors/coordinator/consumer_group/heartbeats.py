"""The answer to ConsumerGroupHeartbeat (KIP-848), as a pure change of a group's state.

Order of a heartbeat: checks, the member's record, the group's epoch, the targets, the member's current assignment. A
refused heartbeat changes nothing. A member that leaves changes no target: the next heartbeat of any member does.

Source: Kafka 4.0 to 4.3 ``GroupMetadataManager.consumerGroupHeartbeat``, ``consumerGroupLeave``,
``GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from kemu.actors.coordinator.consumer_group.regexes import (
    followed,
    forget_unused,
    invalid_regex,
    is_new,
    must_resolve,
)
from kemu.actors.coordinator.consumer_group.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    RecordedChange,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
    share_of,
)
from kemu.actors.coordinator.consumer_group.subscribed import raise_epoch, subscribed_names
from kemu.protocol.consumer_group.assignors import ASSIGNORS, ServerAssignor
from kemu.protocol.consumer_group.balancing import PartitionOutOfRange
from kemu.protocol.consumer_group.reconciling import CurrentAssignment, TargetAssignment, UnknownState, reconciled
from kemu.protocol.consumer_group.rules import RULES_4_0, ConsumerGroupRules
from kemu.protocol.consumer_group.shares import (
    NOTHING,
    TargetMember,
    hash_order,
    member_order,
    partitions_of,
    same,
    table_of_copy,
)
from kemu.protocol.consumer_group.states import Partition, ReconcilingState, TopicId, Topics
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.messages.consumer_group import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicNumbers,
)
from kemu.protocol.messages.group import JoinGroup, JoinGroupReply
from kemu.protocol.messages.member import decode_subscription
from kemu.protocol.names import CONSUMER, UNKNOWN_MEMBER, MemberId, java_string_hash
from kemu.protocol.re2j import InvalidExpression, NotEmulated, Re2jExpression
from kemu.protocol.wire.codec import CodecError

_E = ErrorCode
_EMPTY_ID_UP_TO = 0
"""The last version of the request in which the coordinator makes the id of a member that joins."""
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that ``String.trim`` of Java removes."""
_MEMBER_ID_REQUIRED_SINCE = 4
"""The first version of JoinGroup in which a dynamic member must join with an id from the coordinator (KIP-394)."""


class HeartbeatRefused(Exception):
    """The heartbeat, or the JoinGroup of a classic member, is refused with this error; the group did not change.

    ``member_id``: the id that the member must join with. ``text``: the error message, if kemu emulates the message.
    """

    def __init__(self, error: ErrorCode, member_id: MemberId = UNKNOWN_MEMBER, text: str | None = None) -> None:
        super().__init__(error.name)
        self.error = error
        self.member_id = member_id
        self.text = text


@frozen
class ConsumerGroupConfig:
    """The broker's or the group's config keys ``group.consumer.*``. Times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """The least time between two targets of a group, in releases whose rules have this time."""
    regex_refresh_interval_ms: int = 600_000
    """The age at which the matches of regular expressions are stale, in releases whose rules have this time."""
    max_size: int = (1 << 31) - 1
    assignors: tuple[str, ...] = tuple(ASSIGNORS)


@frozen
class Heard:
    """The outcome of a heartbeat that is not refused.

    ``records``: applied to the group already; ``undo``: the records that undo them, in their order. ``removed``: the
    member that leaves, which the caller removes. ``revokes``:
    whether the rebalance timeout of the member starts (True), stops (False) or stays (None). ``resolve``: the
    regular expressions of the group that must be resolved now. ``assignor``: the assignor of a target that was
    computed.
    """

    reply: ConsumerGroupHeartbeatReply
    member_id: MemberId
    records: tuple[GroupRecord, ...] = ()
    undo: tuple[GroupRecord, ...] = ()
    removed: MemberId | None = None
    revokes: bool | None = None
    rebalance_timeout_ms: int = -1
    resolve: tuple[str, ...] = ()
    assignor: str = ""


@frozen
class ClassicJoined:
    """The outcome of a JoinGroup of a classic member that is not refused: ``records``, ``undo`` and ``resolve`` are
    those of ``Heard``.

    ``downgrades``: whether the group becomes a classic group by this join. ``rebalances``: whether that classic group
    rebalances at once.
    """

    reply: JoinGroupReply
    member: ConsumerMember
    records: tuple[GroupRecord, ...]
    undo: tuple[GroupRecord, ...]
    assignor: str
    downgrades: bool
    rebalances: bool
    resolve: tuple[str, ...] = ()


def check_request(request: ConsumerGroupHeartbeat, version: int, config: ConsumerGroupConfig) -> None:
    """Check the request without the group.

    Raises:
        HeartbeatRefused: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    named = version > _EMPTY_ID_UP_TO or epoch > JOINS or epoch == LEAVES
    needed = (request.group, request.instance_id, request.rack, request.member_id if named else None)
    invalid = any(text is not None and not text.strip(_TRIMMED) for text in needed)
    if epoch == JOINS:
        told = request.topics is not None or request.regex is not None
        invalid = invalid or request.rebalance_timeout_ms == -1 or request.owned != () or not told
    elif epoch == LEAVES_FOR_A_WHILE:
        invalid = invalid or request.instance_id is None
    if invalid or epoch < LEAVES_FOR_A_WHILE:
        raise HeartbeatRefused(_E.INVALID_REQUEST)
    if request.assignor is not None and request.assignor not in config.assignors:
        raise HeartbeatRefused(_E.UNSUPPORTED_ASSIGNOR)


@frozen
class HeartbeatAnswers:
    """Answers the heartbeats of groups in one moment.

    ``topics``: the cluster's topics by name. ``rules`` and ``assignors``: of the release.
    """

    topics: Topics
    config: ConsumerGroupConfig
    rules: ConsumerGroupRules = RULES_4_0
    assignors: Mapping[str, ServerAssignor] = ASSIGNORS

    def leave(self, group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> Heard:
        """Note that a static member will return, or name the member that the caller must remove.

        Raises:
            HeartbeatRefused: the group does not know the member.
        """
        name, reply = (
            known_member(group, request.member_id, request.instance_id).member_id,
            ConsumerGroupHeartbeatReply(error=_E.NONE, member_id=request.member_id, member_epoch=request.member_epoch),
        )
        if request.member_epoch != LEAVES_FOR_A_WHILE:
            return Heard(reply, name, removed=name)
        change = RecordedChange(group)
        current = group.current_of(name)
        kept = dict.fromkeys(current.assigned, 0)  # the member's next process gets the partitions from epoch 0 on
        change.add(CurrentRecord(name, evolve(current, epoch=LEAVES_FOR_A_WHILE, assigned=kept, revoking={})))
        return Heard(reply, name, tuple(change.records), tuple(change.undo))

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeat,
        *,
        is_stale: bool,
        has_new_topics: bool = True,
        now_ms: int = 0,
        client: tuple[str, str] = ("", ""),
        new_member_id: Callable[[], MemberId] = str,
    ) -> Heard:
        """Answer a heartbeat that joins the group or stays in the group.

        Args:
            group: the group, new if its epoch is 0.
            request: the request, checked by ``check_request``.
            is_stale: whether the cluster's topics may have changed since the last change of the group's epoch.
            has_new_topics: whether topics were created since the group's regular expressions were resolved.
            now_ms: the present time.
            client: the client's id and host.
            new_member_id: makes an id for a member without an id.

        Raises:
            HeartbeatRefused: the group does not accept the member, its epoch, or its pattern.
        """
        if len(group.members) >= self.config.max_size and request.member_id not in group.members:
            raise HeartbeatRefused(_E.GROUP_MAX_SIZE_REACHED)
        name = request.member_id or new_member_id()
        former, replaced = self._former(group, request, name)
        member = _told(former, request, client)
        self._check_regex(group, former, member)
        resolves = self._resolves(group, former, member, now_ms, has_new_topics)
        owned = None if request.owned is None else _partitions(request.owned)
        advanced = self._advance(group, former, replaced, member, owned, is_stale=is_stale, now_ms=now_ms)
        change, before, current = advanced.change, advanced.before, advanced.current
        assignment = None
        full = request.rebalance_timeout_ms != -1 and owned is not None
        full = full and (request.topics is not None or request.regex is not None)
        if request.member_epoch == JOINS or full or before.assigned.keys() != current.assigned.keys():
            share = share_of(sorted(current.assigned))
            assignment = tuple(TopicNumbers(topic_id=t, partitions=n) for t, n in share.items())
        revokes = None if current is before else current.state is ReconcilingState.UNREVOKED_PARTITIONS
        reply = ConsumerGroupHeartbeatReply(
            error=_E.NONE,
            member_id=name,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self.config.heartbeat_interval_ms,
            assignment=assignment,
        )
        timeout_ms = member.rebalance_timeout_ms
        records, undo, assignor = tuple(change.records), tuple(change.undo), advanced.assignor
        resolve = tuple(group.regex_users) if resolves else ()
        return Heard(reply, name, records, undo, None, revokes, timeout_ms, resolve, assignor)

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroup,
        version: int,
        *,
        is_stale: bool,
        has_new_topics: bool,
        now_ms: int,
        client: tuple[str, str] = ("", ""),
        new_member_id: Callable[[], MemberId] = str,
        downgrades: bool = False,
    ) -> ClassicJoined:
        """Answer the JoinGroup of a classic member to a group with members. The arguments are those of ``heartbeat``.

        ``downgrades``: whether the member takes the place of the group's last member of the consumer protocol, so that
        the group becomes a classic group.

        Raises:
            HeartbeatRefused: the group does not accept the member, or the member needs an id.

        Source: ``GroupMetadataManager.classicGroupJoinToConsumerGroup`` 4.0.
        """
        if len(group.members) >= self.config.max_size and request.member_id not in group.members:
            raise HeartbeatRefused(_E.GROUP_MAX_SIZE_REACHED)
        if not group.supports_classic(request.protocol_type, [each.name for each in request.protocols]):
            raise HeartbeatRefused(_E.INCONSISTENT_GROUP_PROTOCOL)
        name = request.member_id or new_member_id()
        if request.instance_id is None and not request.member_id and version >= _MEMBER_ID_REQUIRED_SINCE:
            raise HeartbeatRefused(_E.MEMBER_ID_REQUIRED, name)
        former, replaced = _former_classic(group, request, name)
        preferred_protocol = request.protocols[0]
        try:
            subscription = decode_subscription(preferred_protocol.metadata)
        except CodecError:
            raise HeartbeatRefused(_E.UNKNOWN_SERVER_ERROR) from None
        timeout_ms = request.rebalance_timeout_ms
        member = evolve(
            former,
            instance_id=former.instance_id if request.instance_id is None else request.instance_id,
            rack=subscription.rack or former.rack,
            client_id=client[0],
            client_host=client[1],
            rebalance_timeout_ms=former.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topics=tuple(sorted(set(subscription.topics))),
            regex="" if self.rules.ended_pattern_raises_epoch else former.regex,
            classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
        )
        resolves = self.rules.ended_pattern_raises_epoch and self._resolves(
            group, former, member, now_ms, has_new_topics
        )
        owned = [(self.topics[topic].topic_id, n) for topic, n in subscription.owned if topic in self.topics]
        advanced = self._advance(
            group, former, replaced, member, owned, is_stale=is_stale, now_ms=now_ms, downgrades=downgrades
        )
        reply = JoinGroupReply(
            error=_E.NONE,
            generation=advanced.current.epoch,
            protocol_type=CONSUMER,
            protocol_name=preferred_protocol.name,
            member_id=name,
        )
        records, undo = tuple(advanced.change.records), tuple(advanced.change.undo)
        resolve, rebalances = tuple(group.regex_users) if resolves else (), advanced.rebalances
        return ClassicJoined(reply, member, records, undo, advanced.assignor, downgrades, rebalances, resolve)

    def _advance(
        self,
        group: ConsumerGroup,
        former: ConsumerMember,
        replaced: ConsumerMember | None,
        member: ConsumerMember,
        owned: Collection[Partition] | None,
        *,
        is_stale: bool,
        now_ms: int,
        downgrades: bool = False,
    ) -> "_Advanced":
        """Change member, epoch, targets, and the member's current assignment.

        A group that becomes a classic group gets no new target. If it rebalances, the member is not reconciled.

        Source: ``GroupMetadataManager.consumerGroupHeartbeat``, ``ConsumerGroup.targetAssignment`` 4.0.2 to 4.3.0.
        """
        name = member.member_id
        change = RecordedChange(group)
        is_free: Callable[[Partition], bool] = group.is_free
        told_nothing = replaced is None and member == former and name in group.members
        if told_nothing and not is_stale and 0 < group.epoch == group.target_epoch:  # nobody else is looked at
            before = group.current_of(name)
            current = self._reconcile(change, member, before, owned, False, is_free)
            return _Advanced(change, before, current, "", False)
        listed = list(dict.fromkeys((*group.listed(), name)))
        assignor = preferred(votes_of(group), former.assignor, member.assignor, self.config.assignors)
        is_alike = alike(group)
        if replaced is not None:
            if name in group.members:  # of another member with this id; Kafka replays the records afterwards
                is_free = group.free_now()
            _replace(change, replaced, former)
        before = group.current_of(name)
        if member != former or name not in group.members:
            change.add(MemberRecord(name, member))
        changed = (member.topics, member.regex) != (former.topics, former.regex)
        bump = followed(change, former, member, self.rules) or member.topics != former.topics
        if bump or is_stale or group.epoch == 0:
            self._bump(change, bump)
            is_alike = alike(group)  # otherwise Kafka uses the subscriptions from before the heartbeat
        is_behind = group.epoch > group.target_epoch
        rebalances = downgrades and (is_behind if self.rules.stale_target_rebalances_downgraded else bump)
        # Without a new target, Kafka looks the target up by the instance, which an existing member may just have got.
        has_target = replaced is not None or member.instance_id in (None, former.instance_id)
        if is_behind and not downgrades and self._may_compute(group, now_ms):
            has_target = True
            try:
                self._compute(change, listed, assignor, is_alike, now_ms)
            except PartitionOutOfRange:
                for record in change.undo:
                    group.apply(record)
                raise HeartbeatRefused(_E.UNKNOWN_SERVER_ERROR) from None
        current = before
        if not rebalances:
            current = self._reconcile(change, member, before, owned, changed, is_free, has_target=has_target)
        return _Advanced(change, before, current, assignor, rebalances)

    # --- the member --------------------------------------------------------------------------------------------

    def _former(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeat, name: MemberId
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        """The member as the group knows it, and the static member that it replaces."""
        joins = request.member_epoch == JOINS
        if request.instance_id is None or not joins:
            known = group.members.get(name) if joins else known_member(group, name, request.instance_id)
            if not (joins and self.rules.readmits_members):
                _check_epoch(group.current_of(name), request)
            return known or ConsumerMember(name), None
        holder = group.static.get(request.instance_id)
        if holder is None:
            return group.members.get(name) or ConsumerMember(name), None
        replaced = group.members[holder]
        if replaced.classic is None and group.current_of(holder).epoch != LEAVES_FOR_A_WHILE:
            raise HeartbeatRefused(_E.UNRELEASED_INSTANCE_ID)
        return evolve(replaced, member_id=name), replaced

    def _check_regex(self, group: ConsumerGroup, former: ConsumerMember, member: ConsumerMember) -> None:
        """Refuse a new expression that is invalid, or that kemu does not know."""
        if is_new(group, former, member):
            try:
                Re2jExpression(member.regex, names_groups=self.rules.regexes_name_groups)
            except InvalidExpression as error:
                text = invalid_regex(member.regex, str(error))
                raise HeartbeatRefused(_E.INVALID_REGULAR_EXPRESSION, text=text) from None
            except NotEmulated as error:
                raise HeartbeatRefused(_E.UNSUPPORTED_VERSION, text=str(error)) from None

    def _resolves(
        self, group: ConsumerGroup, former: ConsumerMember, member: ConsumerMember, now_ms: int, has_new_topics: bool
    ) -> bool:
        refresh_ms = self.config.regex_refresh_interval_ms if self.rules.refreshes_regexes else None
        return must_resolve(group, former, member, now_ms=now_ms, has_new_topics=has_new_topics, refresh_ms=refresh_ms)

    # --- epoch and targets ---------------------------------------------------------------------------------------

    def _bump(self, change: RecordedChange, bump: bool) -> None:
        group = change.group
        first = 0 if group.is_converted else self.rules.first_epoch
        raised = raise_epoch(change, self.topics, self.rules, bump=bump, least=first + 1)
        if self.rules.hashes_topics and group.topics:  # of a coordinator of 4.0
            change.add(TopicsRecord(()))
        if raised or group.epoch:
            return
        if first == self.rules.first_epoch:  # in 4.3 a converted group may keep its epoch 0
            # Kafka 4.3 writes no record of its first epochs.
            change.add(GroupEpochRecord(first or 1, group.metadata_hash))
            if first:
                change.add(TargetEpochRecord(first))

    def _may_compute(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Whether the last target is old enough for the next target."""
        interval_ms = self.config.assignment_interval_ms if self.rules.spaces_targets else 0
        return not group.target_at_ms or not interval_ms or now_ms >= group.target_at_ms + interval_ms

    def _compute(
        self, change: RecordedChange, listed: Collection[MemberId], assignor: str, is_alike: bool, now_ms: int
    ) -> None:
        """Compute the targets of all members. ``listed``: the members before the heartbeat, and the member itself."""
        group = change.group
        in_order = [group.members[each] for each in member_order(listed) if each in group.members]
        subscribed = {(each.topics, each.regex): each for each in in_order}
        topics = {key: self._topics_in_order(subscribed_names(group, each)) for key, each in subscribed.items()}
        seen = {
            each.member_id: TargetMember(
                *topics[each.topics, each.regex], group.target_of(each.member_id), each.instance_id
            )
            for each in in_order
        }
        partitions = {topic.topic_id: topic.partitions for topic in self.topics.values()}
        targets = self.assignors[assignor](seen, partitions, is_alike)
        for each in seen:
            share = targets.get(each, NOTHING)
            if each not in group.targets or not same(share, group.targets[each]):
                change.add(TargetRecord(each, share))
        change.add(TargetEpochRecord(group.epoch, now_ms if self.rules.spaces_targets else 0))

    def _topics_in_order(self, names: tuple[str, ...]) -> tuple[tuple[TopicId, ...], int]:
        """The ids of the topics that exist, in the order of a set of these names; and the number of names."""
        ordered = hash_order(names, java_string_hash, table_of_copy(len(names)))
        return tuple(self.topics[name].topic_id for name in ordered if name in self.topics), len(names)

    def _reconcile(
        self,
        change: RecordedChange,
        member: ConsumerMember,
        before: CurrentAssignment,
        owned: Collection[Partition] | None,
        changed: bool,
        is_free: Callable[[Partition], bool],
        *,
        has_target: bool = True,
    ) -> CurrentAssignment:
        group = change.group
        share = group.target_of(member.member_id) if has_target else NOTHING
        names = subscribed_names(group, member)
        subscribed = tuple([self.topics[name].topic_id for name in names if name in self.topics])
        target = TargetAssignment(group.target_epoch, tuple(partitions_of(share)), subscribed, len(names), changed)
        try:
            current = reconciled(before, target, owned, is_free, self.rules.reconciling)
        except UnknownState:
            change.revert()
            raise HeartbeatRefused(_E.FENCED_MEMBER_EPOCH) from None
        if current != before:
            change.add(CurrentRecord(member.member_id, current))
            return current
        return before


@frozen
class _Advanced:
    """The change by a request, the member's former and new assignment, and the assignor of a target that was computed.

    ``rebalances``: whether the group, which becomes a classic group, rebalances.
    """

    change: RecordedChange
    before: CurrentAssignment
    current: CurrentAssignment
    assignor: str
    rebalances: bool


def removed(
    group: ConsumerGroup, topics: Topics | None, rules: ConsumerGroupRules, *names: MemberId
) -> tuple[tuple[GroupRecord, ...], tuple[GroupRecord, ...]]:
    """Remove members, and the patterns that nobody else uses; the group's epoch rises.

    ``topics``: the cluster's topics, to which the group adapts also (``consumerGroupFenceMembers`` 4.0 to 4.3); None
    if they are unknown. ``rules``: of the release.

    Returns:
        The records, and the records that undo them.
    """
    change, members = RecordedChange(group), [group.members[name] for name in names]
    for member in members:
        _forget(change, member.member_id)
    forget_unused(change, [member.regex for member in members])
    raise_epoch(change, topics, rules, bump=True)
    return tuple(change.records), tuple(change.undo)


def _forget(change: RecordedChange, name: MemberId) -> None:
    change.add(CurrentRecord(name, None))
    change.add(TargetRecord(name, None))
    change.add(MemberRecord(name, None))


def _replace(change: RecordedChange, old: ConsumerMember, new: ConsumerMember) -> None:
    """Give the target and the partitions of a static member to its new id."""
    share = change.group.target_of(old.member_id)
    current = evolve(change.group.current_of(old.member_id), epoch=0, previous_epoch=0)
    _forget(change, old.member_id)
    change.add(MemberRecord(new.member_id, new))
    change.add(TargetRecord(new.member_id, share))
    change.add(CurrentRecord(new.member_id, current))


# --- checks --------------------------------------------------------------------------------------------------------


def known_member(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> ConsumerMember:
    """The member with these ids.

    Raises:
        HeartbeatRefused: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    holder = member_id if instance_id is None else group.static.get(instance_id)
    member = None if holder is None else group.members.get(holder)
    if member is None:
        raise HeartbeatRefused(_E.UNKNOWN_MEMBER_ID)
    if holder != member_id:
        raise HeartbeatRefused(_E.FENCED_INSTANCE_ID)
    return member


def _former_classic(
    group: ConsumerGroup, request: JoinGroup, name: MemberId
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The classic member that joins, as the group knows it, and the static member that it replaces.

    A static member without a member id replaces its instance. An unknown dynamic member is a new member.

    Source: ``getOrMaybeSubscribeStaticConsumerGroupMember``, ``getOrMaybeSubscribeDynamicConsumerGroupMember``.
    """
    if request.instance_id is not None and request.member_id:
        return known_member(group, request.member_id, request.instance_id), None
    holder = None if request.instance_id is None else group.static.get(request.instance_id)
    if holder is None:
        return group.members.get(name) or ConsumerMember(name), None
    replaced = group.members[holder]
    return evolve(replaced, member_id=name), replaced


def _check_epoch(current: CurrentAssignment, request: ConsumerGroupHeartbeat) -> None:
    """Refuse another epoch than the member's. A member that missed an answer may send its previous epoch, if it owns
    nothing that it may not own.
    """
    if request.member_epoch == current.epoch:
        return
    owned = None if request.owned is None else _partitions(request.owned)
    missed = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
    if not missed or owned is None or not all(partition in current.assigned for partition in owned):
        raise HeartbeatRefused(_E.FENCED_MEMBER_EPOCH)


def _told(former: ConsumerMember, request: ConsumerGroupHeartbeat, client: tuple[str, str]) -> ConsumerMember:
    """The member after the request."""
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerMember(
        member_id=former.member_id,
        instance_id=former.instance_id if request.instance_id is None else request.instance_id,
        rack=former.rack if request.rack is None else request.rack,
        client_id=client[0],
        client_host=client[1],
        rebalance_timeout_ms=former.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=former.topics if request.topics is None else tuple(sorted(set(request.topics))),
        regex=former.regex if request.regex is None else request.regex,
        assignor=former.assignor if request.assignor is None else request.assignor,
    )


def _partitions(owned: Iterable[TopicNumbers]) -> tuple[Partition, ...]:
    return tuple((row.topic_id, number) for row in owned for number in row.partitions)


def alike(group: ConsumerGroup) -> bool:
    """Whether all members have the same subscription.

    Source: ``ConsumerGroup.subscriptionType``.
    """
    members = list(group.members.values())
    patterns = {member.regex for member in members}
    if patterns <= {""}:
        return len({member.topics for member in members}) <= 1
    return len(patterns) == 1 and not any(member.topics for member in members)


def votes_of(group: ConsumerGroup) -> list[str]:
    """The assignors that members name, in the order of the coordinator's map, each as often as it is named."""
    named = [member.assignor for member in group.members.values() if member.assignor]
    return sorted(named, key=list(ASSIGNORS).index)


def preferred(votes: list[str], former: str, now: str, assignors: tuple[str, ...]) -> str:
    """The assignor with the most votes; the broker's first assignor without votes.

    The member's former vote is removed and its vote is added, also if they are equal. A tie goes to the assignor that
    got its first vote last; otherwise to ``uniform``.

    Source: ``ConsumerGroup.computePreferredServerAssignor``; ``HashMap.compute`` puts a new key in front of its bin,
    and both names have one bin in small tables.
    """
    counts = {name: votes.count(name) for name in votes}
    if former:
        counts[former] -= 1
        if not counts[former]:
            del counts[former]
    if now:
        counts = {now: 1, **counts} if now not in counts else {**counts, now: counts[now] + 1}
    return max(counts, key=lambda name: counts[name]) if counts else assignors[0]
