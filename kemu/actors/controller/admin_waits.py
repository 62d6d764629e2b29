"""Delayed answers to admins: each waits until the metadata of the controller's broker shows the result, or until its
timeout.

The controller creates a topic when the topic's nodes are in the store. The admin gets the answer when the partitions
have leaders, so that the controller's broker accepts a further request for the topic. An unfinished request is answered
REQUEST_TIMED_OUT, and still takes effect. The timeout begins with the arrival of the request.

This part knows the broker's metadata from the requests that this controller sent and the broker acknowledged. A
controller that has resigned sends no further metadata, so its waiting answers time out. Kafka's controller reads its
broker's cache instead.

Source: Kafka 2.8 ``DelayedCreatePartitions``, ``DelayedDeleteTopics``, ``DelayedElectLeader``.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple, TypeAlias

from kemu.actors.controller.dispatch import ControllerTimer, Task
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.machine import Caller, Event, TimerFired
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LEADER_DURING_DELETE, NO_LEADER, UpdateMetadata, UpdateMetadataReply
from kemu.protocol.names import TopicPartition

Leaders: TypeAlias = Mapping[TopicPartition, int]
"""Leaders in the metadata of the controller's broker; partitions of topics being deleted are absent."""


class DelayedReply(NamedTuple):
    """A delayed answer to an admin's request.

    ``awaited``: per row of the answer, the condition that the metadata must meet. ``reply``: builds the answer; its
    argument is the rows whose condition was not met in time.
    """

    awaited: Mapping[Hashable, Callable[[Leaders], bool]]
    timeout_ms: int
    reply: Callable[[Collection[Hashable]], object]


def all_led(partitions: Collection[TopicPartition]) -> Callable[[Leaders], bool]:
    """The condition that all these partitions have leaders."""
    return lambda leaders: all(leaders.get(at, NO_LEADER) != NO_LEADER for at in partitions)


def led_by(at: TopicPartition, leader: int) -> Callable[[Leaders], bool]:
    """The condition that this partition has this leader."""
    return lambda leaders: leaders.get(at) == leader


def topic_deleted(topic: str) -> Callable[[Leaders], bool]:
    """The condition that the metadata has no partition of the topic."""
    return lambda leaders: all(name != topic for name, _ in leaders)


class AdminWaits:
    """The controller's part for delayed answers."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._held: Parking[int, tuple[Caller, DelayedReply]] = Parking(machine, ControllerTimer.ADMIN)
        self._last_number = 0
        self._leaders: dict[TopicPartition, int] = {}

    def handle(self, event: Event) -> bool:
        """React to an event of a delayed answer; False for other events."""
        match event:
            case TimerFired(key=(ControllerTimer.ADMIN, number)):
                self._answer(*self._held.time_is_over(int(number)))
                return True
        return False

    def hold(self, task: Task, later: DelayedReply) -> None:
        """Answer now if the metadata shows all rows or the time is over; otherwise wait."""
        assert task.caller is not None
        left_us = later.timeout_ms * 1_000 - (self._machine.now_us - task.asked_at_us)
        if left_us <= 0 or not self._unseen(later):
            self._answer(task.caller, later)
            return
        self._last_number += 1
        self._held.hold(self._last_number, (task.caller, later), left_us)

    def answered(self, broker: int, request: object, reply: object) -> None:
        """Send the waiting answers whose rows the metadata of the controller's broker now shows.

        ``broker`` has answered the request. Only UpdateMetadata requests to the controller's own broker matter
        here.
        """
        match request, reply:
            case UpdateMetadata(), UpdateMetadataReply(error_code=ErrorCode.NONE) if broker == self._machine.broker_id:
                pass
            case _:
                return
        for row in request.partition_states:
            at = (row.topic_name, row.partition_index)
            if row.leader == LEADER_DURING_DELETE:
                self._leaders.pop(at, None)
            else:
                self._leaders[at] = row.leader
        for number in [number for number in self._held if not self._unseen(self._held[number][1])]:
            held = self._held.release(number)
            assert held is not None
            self._answer(*held)

    def knows(self, topic: str) -> bool:
        """Whether the metadata of the controller's broker has a partition of the topic."""
        return not topic_deleted(topic)(self._leaders)

    def clear(self) -> None:
        """Forget the metadata after the resignation: from now on another controller sends metadata."""
        self._leaders = {}

    def _unseen(self, later: DelayedReply) -> list[Hashable]:
        return [row for row, is_seen in later.awaited.items() if not is_seen(self._leaders)]

    def _answer(self, caller: Caller, later: DelayedReply) -> None:
        self._machine.reply(caller, later.reply(self._unseen(later)))
