"""What each release of Kafka Streams does by itself: its task assignor, its metadata, how it rebalances.

=========  ===========  =============  ======================================================================
release    task assignor  rebalances   source
=========  ===========  =============  ======================================================================
2.3        sticky       eager          ``StreamsPartitionAssignor``, ``StickyTaskAssignor``
2.4, 2.5   sticky       cooperatively  KIP-429 as it shipped (its part about Streams did not)
2.6 on     ha           cooperatively  KIP-441: ``HighAvailabilityTaskAssignor``; ``acceptable.recovery.lag`` 10000,
                                       ``max.warmup.replicas`` 2, ``probing.rebalance.interval.ms`` 600000
=========  ===========  =============  ======================================================================

A stream thread whose consumer fails dies alone before 2.8; from then on its instance closes (KIP-671).
``num.standby.replicas`` is 0 and ``commit.interval.ms`` 30000 in all of them, 100 under exactly once, and their clients
have defaults of their own: ``max.poll.records`` 1000 and ``linger.ms`` 100 (``StreamsConfig``).
"""

from collections.abc import Mapping

from attrs import evolve, field, frozen

from kemu.protocol.assign.base import RebalanceProtocol
from kemu.protocol.config import ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.streams.metadata import Layout
from kemu.protocol.streams.modes import THREAD_DIES
from kemu.protocol.streams.registry import (
    LAYOUTS,
    LEARNER,
    TASK_ASSIGNORS,
    TASK_ASSIGNORS_2_3,
    TASK_ASSIGNORS_2_6,
    TASK_ASSIGNORS_3_0,
    TASK_ASSIGNORS_3_4,
    TaskAssignor,
)
from kemu.protocol.streams.threads import ThreadPlacement

EAGER_ONLY = (RebalanceProtocol.EAGER,)
BOTH = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)


@frozen
class TaskRules:
    """What a thread does with its tasks.

    ``forgets_when_resumed``: under exactly once state that is opened again has no checkpoint, as any that is open
    (KAFKA-10362). ``tries_copies_again``: a copy whose directory another thread holds is tried again also while all
    active tasks run (KAFKA-8187). ``restores_after_missed_generations``: a suspended task asks again where its
    changelog ends, unless the next generation gives it back: another owner may have written since. Kafka resumes it as
    it is (eager only: ``StreamTask.resume`` of 3.4, ``AssignedTasks.maybeResumeSuspendedTask`` of 2.3).
    """

    forgets_when_resumed: bool = True
    tries_copies_again: bool = True
    restores_after_missed_generations: bool = False


TASK_RULES = TaskRules()


@frozen
class StreamsRelease:
    """What instances of a release are like, unless they are told otherwise.

    ``layout``: the metadata that members write, but for learners, which have their own; None: what the task assignor
    needs. ``process_id_on_disk``: whether an instance that comes back is the same process (KAFKA-10716).
    ``tells_anew``: whether metadata differs each time a thread asks for a rebalance (KAFKA-10455).
    """

    config: StreamsConfig = field(factory=StreamsConfig)
    task_assignors: Mapping[str, TaskAssignor] = field(factory=lambda: TASK_ASSIGNORS)
    protocols: tuple[RebalanceProtocol, ...] = BOTH
    layout: Layout | None = None
    process_id_on_disk: bool = True
    placement: ThreadPlacement = ThreadPlacement.TOGETHER
    tells_anew: bool = True
    task_rules: TaskRules = TASK_RULES

    def placement_for(self, task_assignor: str) -> ThreadPlacement:
        """How an instance's tasks are spread over its threads."""
        return ThreadPlacement.KEEPING if task_assignor == LEARNER else self.placement

    def layout_of(self, task_assignor: str) -> Layout:
        """The metadata that members write for a task assignor."""
        if self.layout is None or task_assignor == LEARNER:
            return LAYOUTS.get(task_assignor, Layout.HIGH_AVAILABILITY)
        return self.layout


_STICKY = StreamsConfig(emulated_task_assignor="sticky", emulated_uncaught_exception=THREAD_DIES)
_HIGH_AVAILABILITY = StreamsConfig(emulated_task_assignor="ha")
_HIGH_AVAILABILITY_2_6 = StreamsConfig(emulated_task_assignor="ha", emulated_uncaught_exception=THREAD_DIES)

STREAMS_OF_PAGE = StreamsRelease(task_rules=TaskRules(restores_after_missed_generations=True))
"""KIP-429's page: learners, which never shipped."""
STREAMS_2_3 = StreamsRelease(
    _STICKY,
    TASK_ASSIGNORS_2_3,
    EAGER_ONLY,
    Layout.STICKY,
    process_id_on_disk=False,
    placement=ThreadPlacement.IN_TURN,
)
STREAMS_2_4 = evolve(STREAMS_2_3, protocols=BOTH, placement=ThreadPlacement.STICKY_OR_IN_TURN)
STREAMS_2_6 = StreamsRelease(
    _HIGH_AVAILABILITY_2_6,
    TASK_ASSIGNORS_2_6,
    BOTH,
    Layout.HIGH_AVAILABILITY,
    placement=ThreadPlacement.COPIES_APART,
)
STREAMS_2_8 = evolve(STREAMS_2_6, config=_HIGH_AVAILABILITY)
STREAMS_3_0 = evolve(STREAMS_2_8, task_assignors=TASK_ASSIGNORS_3_0)
STREAMS_3_4 = StreamsRelease(_HIGH_AVAILABILITY, TASK_ASSIGNORS_3_4, BOTH, Layout.HIGH_AVAILABILITY)


def consumer_of_streams(config: ConsumerConfig) -> ConsumerConfig:
    """A release's consumer inside Streams. Source: ``StreamsConfig.CONSUMER_DEFAULT_OVERRIDES``."""
    return evolve(config, max_poll_records=1_000)


def producer_of_streams(config: ProducerConfig) -> ProducerConfig:
    """A release's producer inside Streams. Source: ``StreamsConfig.PRODUCER_DEFAULT_OVERRIDES``."""
    return evolve(config, linger_ms=100)
