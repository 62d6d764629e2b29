"""``min.insync.replicas`` of each topic (part of the panel).

Precedence: a topic's own setting, the setting of all brokers, the value at the start (KIP-226).
Source: Kafka's ``LogConfig``, ``DynamicBrokerConfig``; since 3.7 at most the number of replicas
(``Partition.effectiveMinIsr``).
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import Seen, TopicReplicated
from kemu.protocol.dynamic_configs import MIN_INSYNC_REPLICAS
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import BROKER_DEFAULTS, TOPIC_CONFIGS, ReplicaAssignment, read_config, topic_config_path
from kemu.protocol.notes.replication import NodeWritten


class MinInsync:
    """The present values of ``min.insync.replicas``.

    Args:
        assigned: returns the panel's replica assignments.
    """

    def __init__(self, assigned: Callable[[], Mapping[TopicPartition, ReplicaAssignment]]) -> None:
        self._assigned = assigned
        self._at_start: dict[str, int] = {}
        self._set: dict[str, int] = {}
        """Path of the setting in the store -> value."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            TopicReplicated: self._replicated,
            NodeWritten: self._written,
        }

    def of(self, at: TopicPartition) -> int:
        """The partition's value, at most its number of replicas; 1 without a configured value."""
        least = self._set.get(topic_config_path(at[0]), self._set.get(BROKER_DEFAULTS, self._at_start.get(at[0], 1)))
        assignment = self._assigned().get(at)
        return least if assignment is None else min(least, len(assignment.replicas))

    def least_of(self, at: TopicPartition) -> int:
        """The least value that the partition's leader may still use, because a setting reaches brokers some time after
        the store.
        """
        return min(self.of(at), self._at_start.get(at[0], 1))

    def is_below(self, at: TopicPartition, members: int) -> bool:
        """Whether this number of ISR members is below ``least_of``."""
        return members < self._at_start.get(at[0], 1) and members < self.of(at)

    def _replicated(self, seen: Seen, fact: TopicReplicated) -> None:
        self._at_start[fact.topic] = fact.min_isr

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if fact.path == BROKER_DEFAULTS or fact.path.startswith(f"{TOPIC_CONFIGS}/"):
            least = read_config(fact.data).get(MIN_INSYNC_REPLICAS) if fact.what != "deleted" else None
            if least is None:
                self._set.pop(fact.path, None)
            else:
                self._set[fact.path] = int(least)
