"""A consumer's subscription: topics by name, topics by pattern, or partitions that the application assigns.

Source: Kafka's ``SubscriptionState`` and ``ConsumerMetadata``.
"""

from collections.abc import Iterable

from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.consumer.application import IllegalState
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.topic_pattern import TopicPattern


class TopicSubscription:
    """The subscription of one consumer; its topics are the topics that ``metadata`` requests."""

    def __init__(self, config: ConsumerConfig, metadata: MetadataRefresh, topics: tuple[str, ...], text: str) -> None:
        self._internal = not config.exclude_internal_topics
        self._metadata = metadata
        self.topics = sorted_topics(topics)
        self.pattern = TopicPattern(text, internal=self._internal) if text else None
        """The subscribed pattern; None: the consumer subscribes to topics by name."""
        self.by_hand = False
        """Whether the application assigned partitions (``assign()``), so that the consumer has no membership."""

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer is a member, or will be: it subscribes to topics or to a pattern."""
        return bool(self.topics) or self.pattern is not None

    def subscribe(self, topics: tuple[str, ...], pattern: str = "") -> None:
        """Subscribe to these topics, or to all topics that match the pattern, instead of the former topics.

        Raises:
            IllegalState: the application has assigned partitions with ``assign()``.
        """
        if self.by_hand:
            raise IllegalState("subscribe() after assign(): subscription to topics and partitions exclude each other")
        self.pattern = TopicPattern(pattern, internal=self._internal) if pattern else None
        self.topics = self.pattern.among(self._metadata.cluster.topics) if self.pattern else sorted_topics(topics)
        self.want_metadata()

    def unsubscribe(self) -> None:
        """Remove all topics from the subscription."""
        self.topics, self.pattern = (), None
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
        self._metadata.want(sorted_topics((*matched, *others)))

    def want_metadata(self) -> None:
        """Request metadata of the subscribed topics."""
        self._metadata.want_all(None if self.pattern is None else self.pattern.matches)
        self._metadata.want(self.topics)


def sorted_topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    """The topics, sorted and without duplicates."""
    return tuple(sorted(dict.fromkeys(topics)))
