"""The regular expressions of a group (SubscribedTopicRegex, KIP-848): when they are resolved, and the outcome.

A heartbeat only decides whether the group's expressions must be resolved. The coordinator then resolves all of them at
once, so that they raise the group's epoch once. The next heartbeat of any member computes the target.

Source: Kafka 4.0 to 4.3 ``GroupMetadataManager.maybeUpdateRegularExpressions``, ``refreshRegularExpressions``,
``handleRegularExpressionsResult``, ``TopicRegexResolver``.
"""

from collections.abc import Iterable

from kemu.actors.coordinator.consumer_group.state import (
    ConsumerGroup,
    ConsumerMember,
    GroupRecord,
    RecordedChange,
    RegexRecord,
)
from kemu.actors.coordinator.consumer_group.subscribed import raise_epoch
from kemu.protocol.consumer_group.rules import ConsumerGroupRules
from kemu.protocol.consumer_group.shares import hash_order, table_of_copy
from kemu.protocol.consumer_group.states import Topics
from kemu.protocol.names import java_string_hash
from kemu.protocol.topic_pattern import TopicPattern

LEAST_INTERVAL_MS = 10_000
"""The least time between two resolutions. Source: ``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``, a constant."""
RESOLUTION_US = 1_000
"""The time of a resolution outside of the coordinator's thread. Estimated: Kafka needs less for a few topics."""


def invalid_regex(regex: str, why: str) -> str:
    """The error message for an invalid expression. Source: ``Utils.throwIfRegularExpressionIsInvalid``."""
    return f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."


def is_new(group: ConsumerGroup, former: ConsumerMember, member: ConsumerMember) -> bool:
    """Whether the member brings an expression that no member had. ``group``: before the heartbeat."""
    return bool(member.regex) and member.regex != former.regex and not group.regex_users.get(member.regex)


def must_resolve(
    group: ConsumerGroup,
    former: ConsumerMember,
    member: ConsumerMember,
    *,
    now_ms: int,
    has_new_topics: bool,
    refresh_ms: int | None,
) -> bool:
    """Whether a heartbeat makes the coordinator resolve the group's expressions, unless it does so already.

    Args:
        group: the group before the heartbeat.
        former: the member before the heartbeat.
        member: the member after the heartbeat.
        now_ms: the present time.
        has_new_topics: whether topics were created, or the coordinator loaded the group, since the last resolution.
            Deleted topics are no reason.
        refresh_ms: the age from which on the outcome is stale; None: never.
    """
    new = is_new(group, former, member)
    if not new and not group.regex_users:
        return False
    last = next(iter(group.regexes.values()), None)
    if last is not None and now_ms <= last.at_ms + LEAST_INTERVAL_MS:
        return False
    ends = former.regex != member.regex and group.regex_users.get(former.regex) == 1
    used = len(group.regex_users) + new - ends
    is_old = last is not None and refresh_ms is not None and now_ms > last.at_ms + refresh_ms
    return used > 0 and (new or used != len(group.regexes) or has_new_topics or is_old)


def followed(change: RecordedChange, former: ConsumerMember, member: ConsumerMember, rules: ConsumerGroupRules) -> bool:
    """Forget an expression that nobody uses any more, after the member's record was applied.

    Returns:
        Whether the epoch rises now: the member's new expression is resolved already, or it ended its last one.
    """
    if member.regex == former.regex:
        return False
    group = change.group
    forget_unused(change, (former.regex,))
    if not member.regex:
        return rules.ended_pattern_raises_epoch
    return group.regex_users[member.regex] > 1 and member.regex in group.regexes


def forget_unused(change: RecordedChange, regexes: Iterable[str]) -> None:
    """Remove the outcome of those expressions that no member has, also of expressions without an outcome."""
    unused = [regex for regex in dict.fromkeys(regexes) if regex and regex not in change.group.regex_users]
    for regex in hash_order(unused, java_string_hash):
        change.add(RegexRecord(regex, None))


def resolved(
    group: ConsumerGroup,
    regexes: Iterable[str],
    topics: Topics,
    rules: ConsumerGroupRules,
    *,
    now_ms: int,
    version: int,
) -> tuple[tuple[GroupRecord, ...], tuple[GroupRecord, ...]]:
    """Match the expressions against the names of all topics. The epoch rises if the subscribed topics differ.

    Args:
        group: the group, which gets the outcome of those expressions that it still has.
        regexes: the expressions, valid.
        topics: the topics of the cluster by name.
        rules: of the release.
        now_ms: the present time.
        version: the version of ``topics``.

    Returns:
        The records, and the records that undo them.
    """
    change, differs = RecordedChange(group), False
    names = tuple(regexes)
    for regex in hash_order(names, java_string_hash, table_of_copy(len(names))):
        if regex not in group.regex_users:
            continue
        before = group.regexes.get(regex)
        found = TopicPattern(regex, of_broker=True).among(topics)
        differs = differs or found != (() if before is None else before.topics)
        change.add(RegexRecord(regex, found, now_ms, version))
    raise_epoch(change, topics, rules, bump=differs)
    return tuple(change.records), tuple(change.undo)
