"""The topology of a Streams application: its sub-topologies, and the tasks for their topics' partitions."""

from collections.abc import Mapping

from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.tasks import TaskId


@frozen
class Subtopology:
    """Connected nodes of a topology, with one task for each partition of their topics.

    ``changelog``: the topic from which the state is restored, "" without state.
    """

    topics: tuple[str, ...]
    changelog: str = ""


@frozen
class Topology:
    """All sub-topologies of an application, in order; their indices are part of the tasks' names.

    Source: Kafka's ``InternalTopologyBuilder.subtopologyToTopicsInfo``, ``PartitionGrouper.partitionGroups``.
    """

    subtopologies: tuple[Subtopology, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which the application's consumers subscribe, in order, without duplicates."""
        return tuple(sorted({topic for each in self.subtopologies for topic in each.topics}))

    def tasks(self, partitions: Mapping[str, int]) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Every task with its source partitions, in order. ``partitions``: topic -> number of partitions.

        A sub-topology with a missing topic has no task: Kafka's leader waits for its topics.
        """
        found: dict[TaskId, tuple[TopicPartition, ...]] = {}
        for number, each in enumerate(self.subtopologies):
            if any(topic not in partitions for topic in each.topics):
                continue
            for partition in range(max(partitions[topic] for topic in each.topics)):
                sources = tuple((topic, partition) for topic in sorted(each.topics) if partition < partitions[topic])
                found[TaskId(number, partition, f"{number}_{partition}")] = sources
        return found

    def task_of(self, at: TopicPartition) -> TaskId | None:
        """The task that reads a partition; None for a topic that the application does not read."""
        for number, each in enumerate(self.subtopologies):
            if at[0] in each.topics:
                return TaskId(number, at[1], f"{number}_{at[1]}")
        return None

    def changelog_of(self, task: TaskId) -> TopicPartition | None:
        """The partition from which a task's state is restored; None for a task without state."""
        changelog = self.subtopologies[task.subtopology].changelog
        return (changelog, task.partition) if changelog else None

    def is_stateful(self, task: TaskId) -> bool:
        """Whether the task has state."""
        return bool(self.subtopologies[task.subtopology].changelog)
