"""ConsumerGroupHeartbeat and ConsumerGroupDescribe at a coordinator (KIP-848).

The coordinator knows the topics of the cluster from its broker. Before it knows them, it answers
COORDINATOR_LOAD_IN_PROGRESS, as a broker of Kafka leads no partition before it knows the cluster.

Regular expressions (SubscribedTopicRegex) never match ``__consumer_offsets``, which a broker does not tell its
coordinator.

Source: Kafka 4.0 ``GroupCoordinatorService.consumerGroupHeartbeat``, ``GroupMetadataManager``.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kemu.actors.coordinator.consumer_group.heartbeats import (
    ConsumerGroupConfig,
    Heard,
    HeartbeatAnswers,
    HeartbeatRefused,
    check_request,
    preferred,
    votes_of,
)
from kemu.actors.coordinator.consumer_group.regexes import resolved
from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.groups import Groups
from kemu.actors.coordinator.migration import check_upgrade, upgraded
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.machine import Caller, Received, Record, caller_of
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.dynamic_configs import (
    CONSUMER_ASSIGNMENT_INTERVAL,
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    bounds_of_groups,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.consumer_group import (
    JOINS,
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
)
from kemu.protocol.names import ActorName, GroupId
from kemu.protocol.notes.groups import Removal, RequestRefused

_E = ErrorCode
_NONE = ErrorCode.NONE


class ConsumerGroupRequests:
    """The part of a coordinator that serves members of the consumer protocol.

    ``client_id_of``: the client id of an actor.
    """

    def __init__(self, machine: GroupMachine, groups: Groups, client_id_of: Callable[[ActorName], str]) -> None:
        config = machine.config
        self._machine = machine
        self._groups = groups
        self._client_id_of = client_id_of
        self._config = ConsumerGroupConfig(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
        )
        self._settings: dict[GroupId, Mapping[str, str]] = {}
        """Group -> its own settings (IncrementalAlterConfigs)."""

    def know_settings(self, group: GroupId, settings: Mapping[str, str]) -> None:
        """Use these settings of a group from its next heartbeat on. Source: ``GroupConfigManager`` 4.0."""
        self._settings[group] = settings

    def config_of(self, group: GroupId) -> ConsumerGroupConfig:
        """The times of a group: its own settings, otherwise those of the broker."""
        own, config = self._settings.get(group), self._config
        if not own:
            return config
        bounds = bounds_of_groups(self._machine.config) if self._machine.rules.consumer_groups.limits_settings else {}

        def own_ms(key: str, default_ms: int) -> int:
            if key not in own:
                return default_ms
            value_ms = int(own[key])
            least_ms, most_ms = bounds.get(key, (value_ms, value_ms))
            return min(max(value_ms, least_ms), most_ms)

        return evolve(
            config,
            session_timeout_ms=own_ms(CONSUMER_SESSION_TIMEOUT, config.session_timeout_ms),
            heartbeat_interval_ms=own_ms(CONSUMER_HEARTBEAT_INTERVAL, config.heartbeat_interval_ms),
            assignment_interval_ms=own_ms(CONSUMER_ASSIGNMENT_INTERVAL, config.assignment_interval_ms),
        )

    # --- heartbeats --------------------------------------------------------------------------------------------

    def heartbeat(self, event: Received, request: ConsumerGroupHeartbeat) -> None:
        """Answer a heartbeat: join, stay, leave."""
        try:
            self._serve(event, request)
        except HeartbeatRefused as refused:
            self._refuse(event, request, refused.error, refused.text)

    def _serve(self, event: Received, request: ConsumerGroupHeartbeat) -> None:
        if not self._machine.rules.consumer_protocol:
            raise HeartbeatRefused(_E.UNSUPPORTED_VERSION)
        error = self._groups.why_not(request.group)
        checks_first = self._machine.rules.consumer_groups.checks_requests_first
        if error is _E.COORDINATOR_NOT_AVAILABLE or (error is not _NONE and not checks_first):
            raise HeartbeatRefused(error)
        check_request(request, event.version, self._config)
        if error is not _NONE:
            raise HeartbeatRefused(error)
        self._known_topics()
        known = self._groups.by_name.get(request.group)
        if isinstance(known, ModernGroup):
            if request.member_epoch < JOINS:
                self._leave(event, request, known)
            else:
                self._change(event, request, known, self._heard(event, request, known), ())
        elif request.member_epoch != JOINS:
            raise HeartbeatRefused(_E.GROUP_ID_NOT_FOUND)
        else:
            self._join_new(event, request, known)

    def _leave(self, event: Received, request: ConsumerGroupHeartbeat, group: ModernGroup) -> None:
        heard = self.answers_for(group.name).leave(group.working, request)
        if heard.removed is None:
            self._change(event, request, group, heard, ())
        else:
            answer = partial(self._answer, caller_of(event), request, heard.reply)
            group.remove((heard.removed,), Removal.LEFT, " left", answer)

    def _join_new(self, event: Received, request: ConsumerGroupHeartbeat, known: Group | None) -> None:
        """Join a new group, which may replace a classic group: an empty group, or (KIP-848's upgrade) its members.

        The next request looks at the topics again: Kafka replays the records into another object than the one that
        knows when it looked (``GroupMetadataManager.getOrMaybeCreateConsumerGroup``). So the members of a classic group
        are inserted in two maps, the second time in the order of the first map (``createConsumerGroupRecords``).
        """
        partition = self._groups.partition_of(request.group)
        group = ModernGroup(self._machine, partition, request.group, self._groups.keep)
        if known is None or known.is_empty:
            heard = self._heard(event, request, group)
            tombstones: tuple[Record, ...] = ()
            if known is not None:
                group.offsets, group.second = known.offsets, known.second
                tombstones = tuple(known.tombstones())
                known.die("replaced by a group of the consumer protocol")
            self._groups.keep(group)
            group.is_stale = True
            self._change(event, request, group, heard, tombstones)
            return
        shared, config = known.shared, self._machine.config
        check_upgrade(known.name, shared.protocol_type, len(known.members), config)
        known.refuse_all_parked()
        topics, by_id = self._known_topics(), known.members.by_id
        rules = self._machine.rules.consumer_groups
        convert = partial(upgraded, known.name, shared.protocol, shared.generation, topics=topics, rules=rules)
        group.begin_with(convert([by_id[each] for each in known.members.hashed()]))
        order = group.working.listed()
        heard = self._heard(event, request, group)
        converted = convert([by_id[each] for each in order])
        group.working.insert_again(order)
        group.is_stale = True
        group.take_over(known, converted)
        self._groups.keep(group)
        group.heard(heard, self.config_of(group.name).session_timeout_ms)
        answer = partial(self._answer, caller_of(event), request, heard.reply)
        records = (*converted, *heard.records)
        group.write(records, heard.undo, answer, known.tombstones(), partial(group.give_back, known))

    def _heard(self, event: Received, request: ConsumerGroupHeartbeat, group: ModernGroup) -> Heard:
        heard = self.answers_for(group.name).heartbeat(
            group.working,
            request,
            is_stale=group.must_compare_topics,
            has_new_topics=group.has_new_topics,
            now_ms=self._machine.now_ms,
            client=self.client_of(event),
            new_member_id=partial(self._machine.new_member_id, event.peer, group.partition, bare=True),
        )
        group.compared_topics(heard.records)
        return heard

    def _change(
        self,
        event: Received,
        request: ConsumerGroupHeartbeat,
        group: ModernGroup,
        heard: Heard,
        first: Iterable[Record],
    ) -> None:
        group.heard(heard, self.config_of(group.name).session_timeout_ms)
        answer = partial(self._answer, caller_of(event), request, heard.reply)
        group.write(heard.records, heard.undo, answer, first)

    def resolve_regexes(self, name: GroupId) -> None:
        """Resolve the regular expressions of a group, after a heartbeat asked for it."""
        group = self._groups.of_consumers(name)
        if group is not None and group.resolving:
            regexes, group.resolving = group.resolving, ()
            topics, now_ms = self._known_topics(), self._machine.now_ms
            rules, version = self._machine.rules.consumer_groups, self._machine.topics_version
            group.resolved(*resolved(group.working, regexes, topics, rules, now_ms=now_ms, version=version))

    def answers_for(self, group: GroupId) -> HeartbeatAnswers:
        """The answers to members of a group in this moment.

        Raises:
            HeartbeatRefused: the broker has not told the cluster's topics yet.
        """
        return HeartbeatAnswers(self._known_topics(), self.config_of(group), self._machine.rules.consumer_groups)

    def _known_topics(self) -> Mapping[str, Topic]:
        if self._machine.topics is None:
            raise HeartbeatRefused(_E.COORDINATOR_LOAD_IN_PROGRESS)
        return self._machine.topics

    def client_of(self, event: Received) -> tuple[str, str]:
        """The id and the host of the client of a request."""
        return self._client_id_of(event.peer), f"/{event.peer}"

    def _answer(
        self, caller: Caller, request: ConsumerGroupHeartbeat, reply: ConsumerGroupHeartbeatReply, error: ErrorCode
    ) -> None:
        if error is _NONE:
            self._machine.reply(caller, reply)
        else:
            self._refuse(caller, request, self._machine.rules.group_append_errors.get(error, error))

    def _refuse(
        self, caller: Caller | Received, request: ConsumerGroupHeartbeat, error: ErrorCode, text: str | None = None
    ) -> None:
        self._machine.refuse(
            caller,
            ConsumerGroupHeartbeatReply(error=error, error_message=text),
            group=request.group,
            api="ConsumerGroupHeartbeat",
            member_id=request.member_id,
            error=error,
        )

    # --- descriptions ------------------------------------------------------------------------------------------

    def describe(self, event: Received, request: ConsumerGroupDescribe) -> None:
        """Describe groups by their committed state."""
        rows = []
        for name in request.groups:
            error, group = self._groups.why_not(name), self._groups.seen(name)
            known = group if isinstance(group, ModernGroup) and error is _NONE else None
            if known is not None:
                assignor = preferred(votes_of(known.committed), "", "", self._config.assignors)
                rows.append(known.described_as_consumers(assignor, event.version))
                continue
            error = error or _E.GROUP_ID_NOT_FOUND
            self._machine.note(RequestRefused(group=name, api="ConsumerGroupDescribe", member_id="", error=error))
            rows.append(DescribedConsumerGroup(error=error, group=name))
        self._machine.reply(event, ConsumerGroupDescribeReply(groups=tuple(rows)))
