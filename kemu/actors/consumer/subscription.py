"""A consumer's subscription: topics by name, topics by pattern, or partitions that the application assigns.

Source: Kafka's ``SubscriptionState`` and ``ConsumerMetadata``.
"""

from collections.abc import Iterable

from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.consumer.application import IllegalState
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.rebalancing.client_rules import ClientRules
from kemu.protocol.topic_pattern import TopicPattern


class TopicSubscription:
    """The subscription of one consumer; its topics are the topics that ``metadata`` requests.

    Args:
        config: the consumer's configuration.
        metadata: the consumer's metadata.
        topics: the names of the first subscription.
        text: its pattern for the member's own metadata, instead of names.
        regex: its pattern for the brokers, instead of names.
        client: the decisions of the consumer's release.

    Raises:
        ValueError: a classic member has a pattern for the brokers.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: MetadataRefresh,
        topics: tuple[str, ...],
        text: str,
        regex: str,
        client: ClientRules,
    ) -> None:
        if regex and not config.uses_consumer_protocol:
            raise ValueError("subscription_pattern needs group.protocol = consumer")
        self._internal = not config.exclude_internal_topics
        self._uses_consumer_protocol = config.uses_consumer_protocol
        self._metadata = metadata
        self._asks_for_all = client.asks_for_all_topics_of_brokers_pattern
        self.topics = sorted_topics(topics)
        self.pattern = TopicPattern(text, internal=self._internal) if text else None
        """The subscribed pattern for the member's metadata; None: topics by name, or a pattern for the brokers."""
        self.regex = regex
        """The subscribed pattern for the brokers (``SubscriptionPattern``, KIP-848); "" without such a pattern."""
        self.by_hand = False
        """Whether the application assigned partitions (``assign()``), so that the consumer has no membership."""

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer is a member, or will be: it subscribes to topics or to a pattern."""
        return bool(self.topics or self.regex) or self.pattern is not None

    def includes(self, topic: str) -> bool:
        """Whether an assigned partition of this topic is subscribed; a partition that is not will be revoked."""
        return not self.topics or topic in self.topics

    def subscribe(self, topics: tuple[str, ...], pattern: str = "", regex: str = "") -> None:
        """Subscribe to these topics, or to all topics that match one of the patterns, instead of the former topics.

        Raises:
            IllegalState: the application has assigned partitions with ``assign()``, or a classic member has a pattern
                for the brokers.
        """
        if regex and not self._uses_consumer_protocol:
            raise IllegalState("subscribe(SubscriptionPattern) needs group.protocol = consumer")
        if self.by_hand:
            raise IllegalState("subscribe() after assign(): subscription to topics and partitions exclude each other")
        self.pattern = TopicPattern(pattern, internal=self._internal) if pattern else None
        self.regex = regex
        before = self.topics
        self.topics = self.pattern.among(self._metadata.cluster.topics) if self.pattern else sorted_topics(topics)
        by_name = bool(self.topics) and self.pattern is None
        self.want_metadata(anew=by_name and self.topics != before)

    def unsubscribe(self) -> None:
        """Remove all topics from the subscription."""
        self.topics, self.pattern, self.regex = (), None, ""
        self.want_metadata()

    def match(self, topics: Iterable[str], *, keeps_others: bool) -> None:
        """Subscribe to the topics that match the pattern.

        ``keeps_others``: continue to request metadata of the other members' topics, as their leader.

        Source: ``ConsumerCoordinator.updatePatternSubscription``.
        """
        assert self.pattern is not None
        matched = self.pattern.among(topics)
        if matched == self.topics:
            return
        self.topics = matched
        others = self._metadata.interest if keeps_others else ()
        self._metadata.want(sorted_topics((*matched, *others)), anew=True)

    def want_metadata(self, *, anew: bool = False) -> None:
        """Request metadata of the subscribed topics; ``anew``: even if all are known."""
        keeps = None if self.pattern is None else self.pattern.matches
        if self.regex and self._asks_for_all:
            keeps = _every
        self._metadata.want_all(keeps)
        self._metadata.want_ids(() if self.regex and not self._asks_for_all else None)
        self._metadata.want(self.topics, anew=anew)

    def assigned(self, topic_ids: Iterable[str]) -> None:
        """Request metadata of the assigned topics, if the brokers match the pattern.

        Source: ``SubscriptionState.setAssignedTopicIds`` 4.1.
        """
        if self.regex and not self._asks_for_all:
            self._metadata.want_ids(tuple(sorted(set(topic_ids))))


def _every(topic: str) -> bool:
    return True


def sorted_topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    """The topics, sorted and without duplicates."""
    return tuple(sorted(dict.fromkeys(topics)))
