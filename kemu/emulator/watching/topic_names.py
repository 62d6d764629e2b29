"""The names of topics by id (part of the panel): requests and answers about offsets since version 10 have ids alone.

A client learns an id from a broker's answer to Metadata, so that the panel has seen the id's name before.
"""

from collections.abc import Callable
from typing import Any

from kemu.actors.machine import Send
from kemu.emulator.facts import Seen, sent
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.group import FetchedOffset, OffsetToCommit
from kemu.protocol.names import TopicPartition


class TopicNames:
    """The topics that brokers have named to clients."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {sent(MetadataReply): self._told}

    def partition_of(self, row: FetchedOffset | OffsetToCommit) -> TopicPartition:
        """The partition of a row; an id that no broker has named is the name."""
        return row.topic or self._names.get(row.topic_id, row.topic_id), row.partition

    def _told(self, seen: Seen, fact: Send) -> None:
        for topic in fact.message.topics:
            if topic.topic and topic.topic_id and topic.topic_id not in self._names:
                self._names[topic.topic_id] = topic.topic
