"""Answers to admins that wait until our own broker's metadata shows what was asked for, or their time is over.

A topic is created when its nodes are in the store; the admin hears so when its partitions have leaders: an admin who
asks our broker next finds what the answer promised. What is not seen in time is answered REQUEST_TIMED_OUT and happens
all the same. The time counts from the request's arrival.

What our broker knows is what we told it and it answered: all of its metadata comes from here while we control. One
that resigns hears no more of it, so that what waits then runs out of time; Kafka's looks at its broker's cache.
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
"""What our broker's metadata says; partitions of topics being deleted are not in it."""


class Later(NamedTuple):
    """An answer that waits.

    ``awaited``: a row of the answer -> whether the metadata shows it. ``reply``: the answer, given the rows that were
    not seen in time.
    """

    awaited: Mapping[Hashable, Callable[[Leaders], bool]]
    timeout_ms: int
    reply: Callable[[Collection[Hashable]], object]


def all_led(partitions: Collection[TopicPartition]) -> Callable[[Leaders], bool]:
    """These have leaders."""
    return lambda leaders: all(leaders.get(at, NO_LEADER) != NO_LEADER for at in partitions)


def led_by(at: TopicPartition, leader: int) -> Callable[[Leaders], bool]:
    """This one has this leader."""
    return lambda leaders: leaders.get(at) == leader


def topic_gone(topic: str) -> Callable[[Leaders], bool]:
    """No partition of it is known."""
    return lambda leaders: all(name != topic for name, _ in leaders)


class AdminWaits:
    """A part of the controller."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._held: Parking[int, tuple[Caller, Later]] = Parking(machine, ControllerTimer.ADMIN)
        self._last_number = 0
        self._leaders: dict[TopicPartition, int] = {}

    def handle(self, event: Event) -> bool:
        """Take an event of a request that waits; False if it is none."""
        match event:
            case TimerFired(key=(ControllerTimer.ADMIN, number)):
                self._answer(*self._held.time_is_over(int(number)))
                return True
        return False

    def hold(self, task: Task, later: Later) -> None:
        """Answer now if all is seen, or there is no time; else wait."""
        assert task.caller is not None
        left_us = later.timeout_ms * 1_000 - (self._machine.now_us - task.asked_at_us)
        if left_us <= 0 or not self._unseen(later):
            self._answer(task.caller, later)
            return
        self._last_number += 1
        self._held.hold(self._last_number, (task.caller, later), left_us)

    def heard(self, broker: int, request: object, reply: object) -> None:
        """A broker answered: when ours took metadata, what waited for it is answered."""
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

    def forget(self) -> None:
        """We do not control any more: somebody else tells our broker now."""
        self._leaders = {}

    def _unseen(self, later: Later) -> list[Hashable]:
        return [row for row, is_seen in later.awaited.items() if not is_seen(self._leaders)]

    def _answer(self, caller: Caller, later: Later) -> None:
        self._machine.reply(caller, later.reply(self._unseen(later)))
