"""Subscriptions by pattern.

Each member matches the pattern of ``subscribe(Pattern)`` against its metadata. The coordinator matches the pattern of
``subscribe(SubscriptionPattern)`` (KIP-848).
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kemu.protocol.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kemu.protocol.re2j import Re2jExpression

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Topics that a broker marks as internal. Source: ``Topic.INTERNAL_TOPICS``."""


def wrong_pattern(text: str, *, of_broker: bool = False) -> str:
    """The reason why an expression is invalid; "" if it is valid. ``of_broker``: it is a ``SubscriptionPattern``."""
    try:
        TopicPattern(text, of_broker=of_broker)
    except ValueError as error:
        return str(error)
    return ""


def _re2j(text: str) -> "Re2jExpression":
    from kemu.protocol.re2j import Re2jExpression  # late: few groups subscribe by patterns

    return Re2jExpression(text)


class TopicPattern:
    """A regular expression that must match the whole name of a topic.

    Kafka's clients use Java's expressions, kemu uses Python's; the usual constructs for names of topics mean the same
    in both. Kafka's brokers use RE2/J.

    Args:
        text: the expression.
        internal: whether to match brokers' internal topics, too (``exclude.internal.topics`` is false).
        of_broker: whether brokers match the expression (``SubscriptionPattern``), in the syntax of RE2/J.

    Raises:
        ValueError: the expression is invalid.
    """

    __slots__ = ("_compiled", "_internal", "text")

    def __init__(self, text: str, *, internal: bool = False, of_broker: bool = False) -> None:
        self.text = text
        self._internal = internal
        try:
            self._compiled = _re2j(text) if of_broker else re.compile(text)
        except (re.error, ValueError, RecursionError) as error:
            raise ValueError(f"{text!r} is not a regular expression: {error}") from error

    def matches(self, topic: str) -> bool:
        """Whether a topic of this name belongs to the subscription. Source: ``ConsumerMetadata.retainTopic``."""
        return (self._internal or topic not in INTERNAL_TOPICS) and bool(self._compiled.fullmatch(topic))

    def among(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The matching topics, sorted."""
        return tuple(sorted(filter(self.matches, topics)))
