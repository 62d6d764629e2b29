"""A subscription by pattern: each member matches the pattern of ``subscribe(Pattern)`` against its metadata."""

import re
from collections.abc import Iterable

from kemu.protocol.names import OFFSETS_TOPIC

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Topics that a broker marks as internal. Source: ``Topic.INTERNAL_TOPICS``."""


def wrong_pattern(text: str) -> str:
    """The reason why an expression is invalid; "" if it is valid."""
    try:
        TopicPattern(text)
    except ValueError as error:
        return str(error)
    return ""


class TopicPattern:
    """A regular expression that must match the whole name of a topic.

    Kafka uses Java's expressions, kemu uses Python's; the usual constructs for names of topics mean the same in both.

    Args:
        text: the expression.
        internal: whether to match brokers' internal topics, too (``exclude.internal.topics`` is false).

    Raises:
        ValueError: the expression is invalid.
    """

    __slots__ = ("_compiled", "_internal", "text")

    def __init__(self, text: str, *, internal: bool = False) -> None:
        self.text = text
        self._internal = internal
        try:
            self._compiled = re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!r} is not a regular expression: {error}") from error

    def matches(self, topic: str) -> bool:
        """Whether a topic of this name belongs to the subscription. Source: ``ConsumerMetadata.retainTopic``."""
        return (self._internal or topic not in INTERNAL_TOPICS) and self._compiled.fullmatch(topic) is not None

    def among(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The matching topics, sorted."""
        return tuple(sorted(filter(self.matches, topics)))
