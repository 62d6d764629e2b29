"""An instance's threads share its disk: a task whose directory another thread has locked waits until it is unlocked."""

from kemu.actors.machine import Told
from kemu.actors.streams.instance import Instance
from kemu.actors.streams.tasks import TaskState
from kemu.protocol.commands import HoursPass, Start
from kemu.protocol.config import ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.draws import CALM
from kemu.protocol.streams.metadata import StreamsGiven
from kemu.protocol.streams.tasks import task_id
from kemu.protocol.streams.topology import Subtopology, Topology
from tests.actors.consumer.consumer_harness import Middle

TASK = task_id("0_0")
STANDBY = StreamsGiven(standby={TASK: (("in", 0),)})


def _instance() -> Instance:
    instance = Instance(
        "s1",
        "app",
        Topology((Subtopology(("in",), "changelog"),)),
        StreamsConfig(num_stream_threads=2),
        consumer=ConsumerConfig(),
        producer=ProducerConfig(),
        process_id=bytes(16),
        bootstrap=("b0",),
        chances=lambda part: Middle(),
        draws=CALM,
    )
    instance.step(0, Told(Start()))
    return instance


def test_a_task_whose_directory_another_thread_has_goes_on_when_it_is_let_go() -> None:
    """Kafka's threads try the lock of the state directory again in each of their loops; nothing else need happen."""
    instance = _instance()
    first, second = instance.threads.values()
    first.tasks.take(STANDBY, 1)
    second.tasks.take(STANDBY, 1)
    assert first.tasks.copies[TASK].state is TaskState.RUNNING
    assert second.tasks.copies[TASK].state is TaskState.CREATED

    first.tasks.take(StreamsGiven(), 1)
    instance.step(1, Told(HoursPass()))

    assert TASK not in first.tasks.copies
    assert second.tasks.copies[TASK].state is TaskState.RUNNING


def test_nobody_looks_again_when_nobody_was_refused() -> None:
    """An unlock without a waiting thread has no effect."""
    instance = _instance()
    first, _ = instance.threads.values()
    first.tasks.take(STANDBY, 1)
    first.tasks.take(StreamsGiven(), 1)

    assert not instance.directory.freed
