"""Requests held for a later answer."""

import pytest

from kemu.actors.machine import Event, Machine, StartTimer, StopTimer, TimerFired
from kemu.actors.parking import Parking


class Holder(Machine):
    """Holds whatever a test gives it."""

    def __init__(self) -> None:
        super().__init__("m")
        self.parking: Parking[int, str] = Parking(self, "hold")
        self.ended: list[str] = []

    def handle(self, event: Event) -> None:
        """Only timers."""
        assert isinstance(event, TimerFired)
        self.ended.append(self.parking.time_is_over(int(event.key[1])))


def test_what_is_held_is_released_once() -> None:
    """Kafka's DelayedOperation: completed exactly once."""
    parking: Parking[str, str] = Parking()
    parking.hold("a", "first")
    parking.hold("b", "second")

    assert (list(parking), len(parking), "a" in parking, parking["b"]) == (["a", "b"], 2, True, "second")
    assert parking.release("a") == "first"
    assert parking.release("a") is None
    assert (list(parking), parking.get("a")) == (["b"], None)


def test_a_later_request_takes_the_place_of_an_earlier_one() -> None:
    """As a member's second JoinGroup: the first is never answered."""
    parking: Parking[str, str] = Parking()
    parking.hold("a", "first")
    parking.hold("a", "second")

    assert (len(parking), parking.release("a")) == (1, "second")


def test_a_wait_ends_by_its_timer_or_takes_it_along() -> None:
    """Kafka's DelayedOperation: the timer that is not needed any more is cancelled."""
    holder = Holder()
    holder.parking.hold(1, "first", wait_us=500)
    holder.parking.hold(2, "second", wait_us=700)
    holder.parking.release(2)
    assert holder._effects == [
        StartTimer(("hold", "1"), 500),
        StartTimer(("hold", "2"), 700),
        StopTimer(("hold", "2")),
    ]

    assert holder.step(500, TimerFired(("hold", "1"))) == []

    assert (holder.ended, len(holder.parking)) == (["first"], 0)


def test_a_wait_that_ends_needs_a_machine() -> None:
    """A caller's mistake, not a wait for ever."""
    with pytest.raises(AssertionError):
        Parking[int, str]().hold(1, "x", wait_us=5)
