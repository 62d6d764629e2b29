"""A subscription by pattern: ``subscribe(Pattern)``, matched by each member against all topics it hears of."""

import re
from collections.abc import Iterable

from kemu.protocol.names import OFFSETS_TOPIC

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""What a broker marks as its own. Source: ``Topic.INTERNAL_TOPICS``."""


def wrong_pattern(text: str) -> str:
    """What is wrong with an expression; "" if nothing is."""
    try:
        TopicPattern(text)
    except ValueError as error:
        return str(error)
    return ""


class TopicPattern:
    """A regular expression that whole names of topics match.

    Kafka's are Java's, ours Python's; what is used for names of topics means the same in both.

    Args:
        text: the expression.
        internal: brokers' own topics match, too (``exclude.internal.topics`` is false).

    Raises:
        ValueError: it is none.
    """

    __slots__ = ("_compiled", "_internal", "text")

    def __init__(self, text: str, *, internal: bool = False) -> None:
        self.text = text
        self._internal = internal
        try:
            self._compiled = re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!r} is no regular expression: {error}") from error

    def matches(self, topic: str) -> bool:
        """Whether it is subscribed to, if it is there. Source: ``ConsumerMetadata.retainTopic``."""
        return (self._internal or topic not in INTERNAL_TOPICS) and self._compiled.fullmatch(topic) is not None

    def among(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Those of these that it matches, sorted."""
        return tuple(sorted(filter(self.matches, topics)))
