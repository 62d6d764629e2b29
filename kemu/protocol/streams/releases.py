"""The defaults of each release of Kafka Streams: task assignor, metadata, rebalance protocol.

=========  ===========  =============  ======================================================================
release    task assignor  rebalances   source
=========  ===========  =============  ======================================================================
2.3        sticky       eager          ``StreamsPartitionAssignor``, ``StickyTaskAssignor``
2.4, 2.5   sticky       cooperatively  KIP-429 as it shipped (its part about Streams did not)
2.6 on     ha           cooperatively  KIP-441: ``HighAvailabilityTaskAssignor``; ``acceptable.recovery.lag`` 10000,
                                       ``max.warmup.replicas`` 2, ``probing.rebalance.interval.ms`` 600000
=========  ===========  =============  ======================================================================

Before 2.8, a stream thread whose consumer fails dies alone; from 2.8 on its instance closes (KIP-671). In all releases
``num.standby.replicas`` is 0, and ``commit.interval.ms`` is 30000, or 100 under exactly once. The clients of Kafka
Streams have other defaults: ``max.poll.records`` 1000 and ``linger.ms`` 100 (``StreamsConfig``).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import field

from kemu.protocol.assign.base import RebalanceProtocol
from kemu.protocol.config import ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.streams.modes import LAYOUTS, LEARNER, THREAD_DIES, Layout, ThreadPlacement

if TYPE_CHECKING:
    from kemu.protocol.streams.registry import TaskAssignor

EAGER_ONLY = (RebalanceProtocol.EAGER,)
BOTH = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)


@frozen
class TaskRules:
    """The rules of a thread for its tasks.

    ``forgets_when_resumed``: under exactly once, a resumed state store has no checkpoint, like any open state store
    (KAFKA-10362).
    ``retries_copies``: while all active tasks run, the thread also retries a copy whose directory another thread has
    locked (KAFKA-8187).
    ``restores_after_missed_generations``: a suspended task reads its changelog's end again, unless the next generation
    returns the task: another owner may have written since. Kafka resumes the task unchanged (eager only:
    ``StreamTask.resume`` of 3.4, ``AssignedTasks.maybeResumeSuspendedTask`` of 2.3).
    """

    forgets_when_resumed: bool = True
    retries_copies: bool = True
    restores_after_missed_generations: bool = False


TASK_RULES = TaskRules()


@frozen
class StreamsRelease:
    """The defaults of a release's instances.

    ``assignors_of``: the release of the task assignors; "": they visit tasks and clients in order.
    ``layout``: the metadata that members write (learners have a separate layout); None: the layout that the task
    assignor needs. ``process_id_on_disk``: whether a restarted instance keeps its process id (KAFKA-10716).
    ``uses_nonce``: whether metadata differs each time a thread requests a rebalance (KAFKA-10455).
    """

    config: StreamsConfig = field(factory=StreamsConfig)
    assignors_of: str = ""
    protocols: tuple[RebalanceProtocol, ...] = BOTH
    layout: Layout | None = None
    process_id_on_disk: bool = True
    placement: ThreadPlacement = ThreadPlacement.TOGETHER
    uses_nonce: bool = True
    task_rules: TaskRules = TASK_RULES

    @property
    def task_assignors(self) -> "Mapping[str, TaskAssignor]":
        """The task assignors by name."""
        from kemu.protocol.streams.registry import TASK_ASSIGNORS_OF  # late: many runs have no Streams application

        return TASK_ASSIGNORS_OF[self.assignors_of]

    def placement_for(self, task_assignor: str) -> ThreadPlacement:
        """The rule that distributes an instance's tasks to its threads."""
        return ThreadPlacement.KEEPING if task_assignor == LEARNER else self.placement

    def layout_of(self, task_assignor: str) -> Layout:
        """The metadata layout that members write for a task assignor."""
        if self.layout is None or task_assignor == LEARNER:
            return LAYOUTS.get(task_assignor, Layout.HIGH_AVAILABILITY)
        return self.layout


_STICKY = StreamsConfig(emulated_task_assignor="sticky", emulated_uncaught_exception=THREAD_DIES)
_HIGH_AVAILABILITY = StreamsConfig(emulated_task_assignor="ha")
_HIGH_AVAILABILITY_2_6 = StreamsConfig(emulated_task_assignor="ha", emulated_uncaught_exception=THREAD_DIES)

STREAMS_OF_PAGE = StreamsRelease(task_rules=TaskRules(restores_after_missed_generations=True))
"""The release of KIP-429's page: learners, which never shipped."""
STREAMS_2_3 = StreamsRelease(
    _STICKY,
    "2.3",
    EAGER_ONLY,
    Layout.STICKY,
    process_id_on_disk=False,
    placement=ThreadPlacement.IN_TURN,
)
STREAMS_2_4 = evolve(STREAMS_2_3, protocols=BOTH, placement=ThreadPlacement.STICKY_OR_IN_TURN)
STREAMS_2_6 = StreamsRelease(
    _HIGH_AVAILABILITY_2_6,
    "2.6",
    BOTH,
    Layout.HIGH_AVAILABILITY,
    placement=ThreadPlacement.COPIES_APART,
)
STREAMS_2_8 = evolve(STREAMS_2_6, config=_HIGH_AVAILABILITY)
STREAMS_3_0 = evolve(STREAMS_2_8, assignors_of="3.0")
STREAMS_3_4 = StreamsRelease(_HIGH_AVAILABILITY, "3.4", BOTH, Layout.HIGH_AVAILABILITY)


def consumer_of_streams(config: ConsumerConfig) -> ConsumerConfig:
    """The consumer's configuration of a release inside Streams.
    Source: ``StreamsConfig.CONSUMER_DEFAULT_OVERRIDES``.
    """
    return evolve(config, max_poll_records=1_000)


def producer_of_streams(config: ProducerConfig) -> ProducerConfig:
    """The producer's configuration of a release inside Streams.
    Source: ``StreamsConfig.PRODUCER_DEFAULT_OVERRIDES``.
    """
    return evolve(config, linger_ms=100)
