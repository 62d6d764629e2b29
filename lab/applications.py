"""Applications for scenarios in ``lab/scenarios``. These applications make calls that the default poll loop never
makes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kemu.actors.consumer.application import ApplicationFactory, Calls
from kemu.actors.consumer.partition import Returned
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.names import TopicPartition

POLL_US = 400_000
ASKS_EVERY = 3
"""Number of polls between two calls of other kinds."""


class Asking:
    """An application that polls with a timeout, and makes each call of Kafka's ``Consumer`` in turn."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._polls = 0
        self._read: dict[TopicPartition, int] = {}
        """Partition -> last offset that was processed since the last poll."""
        self._calls: Calls

    def started(self, calls: Calls) -> None:
        """Poll."""
        self._calls = calls
        calls.poll(POLL_US)

    def polled(self, records: Sequence[Returned]) -> None:
        """Process the records, and make another call or the next poll."""
        self._polls += 1
        self._read = {}
        for part in records:
            self._calls.processed(part, self._calls.now_us)
            self._read[part.at] = part.last
        if self._polls % ASKS_EVERY:
            self._calls.poll(POLL_US)
            return
        steps = self._steps()
        steps[self._polls // ASKS_EVERY % len(steps)]()

    def _steps(self) -> Sequence[Callable[[], None]]:
        return (
            self._commit_all_later,
            lambda: self._calls.committed(self._calls.assignment(), self._go_on),
            self._commit_read_later,
            lambda: self._calls.end_offsets(self._calls.assignment(), self._go_on),
            self._commit_some,
            lambda: self._calls.beginning_offsets(self._calls.assignment(), self._go_on),
            self._look,
            lambda: self._calls.offsets_for_times(
                {at: max(0, self._calls.now_us // 1_000 - 5_000) for at in self._calls.assignment()}, self._go_on
            ),
            self._pause_some,
            self._commit_twice,
            self._resume_all,
            self._calls.commit_sync,
        )

    def _commit_all_later(self) -> None:
        self._calls.commit_async(then=lambda _: None)
        self._calls.poll(POLL_US)

    def _commit_read_later(self) -> None:
        self._calls.commit_async(self._processed(), lambda _: None)
        self._calls.poll(POLL_US)

    def _commit_twice(self) -> None:
        self._calls.commit_async(then=None)
        self._calls.commit_sync()

    def _commit_some(self) -> None:
        self._calls.commit_sync(self._processed() or None)

    def _processed(self) -> dict[TopicPartition, int]:
        return dict(self._read)

    def _look(self) -> None:
        calls = self._calls
        for at in calls.assignment():
            calls.position(at)
            calls.current_lag(at)
        calls.child_consumer_is_alive()
        calls.work(POLL_US)

    def _pause_some(self) -> None:
        self._calls.pause(self._calls.assignment()[:1])
        self._calls.poll(POLL_US)

    def _resume_all(self) -> None:
        self._calls.resume(self._calls.paused())
        self._calls.poll(POLL_US)

    def _go_on(self, _: Mapping[TopicPartition, int | None]) -> None:
        self._calls.poll(POLL_US)

    def worked(self) -> None:
        """Poll."""
        self._calls.poll(POLL_US)

    def committed(self) -> None:
        """Poll, whether the commit succeeded or failed."""
        self._calls.poll(POLL_US)

    def poll_raised(self, why: str) -> None:
        """Poll after a pause."""
        self._calls.work(POLL_US)


APPLICATIONS: Mapping[str, Mapping[str, ApplicationFactory]] = MappingProxyType(
    {
        "applications-that-ask": {"c1": Asking, "c2": Asking, "c3": Asking},
        "applications-with-ranges": {"c1": Asking, "c2": Asking},
    }
)
"""Name of a scenario -> host -> factory of the host's application."""
