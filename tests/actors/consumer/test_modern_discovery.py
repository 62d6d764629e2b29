"""How a consumer of the consumer protocol looks its coordinator up: CoordinatorRequestManager 4.0 to 4.3."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.clients.discovery import FIND
from kemu.actors.consumer.modern_discovery import ModernDiscovery
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode

MS = 1_000


class Thread:
    """A network thread with one lookup at a time; the test answers."""

    def __init__(self) -> None:
        self.now_us = 0
        self.sent_ms: list[int] = []
        """The times of lookups."""
        self.timer_us: int | None = None
        self.available_us = 0
        self.refused: list[ErrorCode] = []
        self._answers: tuple[Callable[..., None], ...] = ()
        ignore = lambda *args, **named: None  # noqa: E731
        watcher: Any = SimpleNamespace(
            coordinator_found=ignore,
            coordinator_lost=ignore,
            coordinator_not_found=ignore,
            wake=ignore,
            fail_later=lambda error, why: self.refused.append(error),
        )
        client: Any = SimpleNamespace(available_at=lambda host: self.available_us)
        config = ConsumerConfig(group_id="g", group_protocol="consumer")
        self.discovery = ModernDiscovery(self, client, self, watcher, config, self)  # type: ignore[arg-type]

    def below(self, bound: int) -> int:
        """The middle of the jitter."""
        return bound // 2

    def note(self, note: object) -> None:
        """Take a note."""

    def look_up(self, group: str, *answers: Callable[..., None]) -> None:
        """Send a lookup."""
        self.sent_ms.append(self.now_us // MS)
        self._answers = answers

    def start_timer(self, key: object, us: int) -> None:
        """Start the one timer."""
        assert key == FIND
        self.timer_us = self.now_us + us

    def passes(self, ms: int) -> None:
        """Let time pass; the timer fires in it."""
        end_us = self.now_us + ms * MS
        while self.timer_us is not None and self.timer_us <= end_us:
            self.now_us, self.timer_us = self.timer_us, None
            self.discovery.timer_fired()
        self.now_us = end_us

    def finds(self, host: str = "b1/coordinator") -> None:
        """The answer names a coordinator."""
        self._answers[0](host, None)

    def fails(self) -> None:
        """The answer is a retriable error, or does not come."""
        self._answers[1](None)


def test_a_failed_lookup_is_repeated_after_an_exponential_backoff() -> None:
    """``RequestState.onFailedAttempt``: 100 ms, doubled until 1 s; a found coordinator begins anew."""
    thread = Thread()
    thread.discovery.find()
    for wait_ms in (100, 200, 400, 800, 1000, 1000):
        thread.fails()
        thread.passes(wait_ms)
    assert thread.sent_ms == [0, 100, 300, 700, 1500, 2500, 3500]

    thread.finds()
    thread.discovery.lose_coordinator("moved")
    thread.discovery.find()
    thread.passes(100)
    thread.fails()
    thread.passes(100)
    assert thread.sent_ms[-2:] == [3600, 3700]


def test_after_an_answer_that_found_a_coordinator_the_next_lookup_waits() -> None:
    """``RequestState.onSuccessfulAttempt``."""
    thread = Thread()
    thread.discovery.find()
    thread.passes(10)
    thread.finds()
    thread.discovery.lose_coordinator("NOT_COORDINATOR")

    thread.discovery.find()
    thread.passes(99)
    assert thread.sent_ms == [0]
    thread.passes(1)
    assert thread.sent_ms == [0, 110]


def test_a_coordinator_whose_host_is_unavailable_is_known_at_the_end_of_its_backoff() -> None:
    """Of 50 ms: before the next lookup. Of 1 s: lookups go on, and may find another host."""
    thread = Thread()
    thread.available_us = 50 * MS
    thread.discovery.find()
    thread.finds()
    assert thread.discovery.coordinator is None
    thread.passes(50)
    assert (thread.discovery.coordinator, thread.sent_ms) == ("b1/coordinator", [0])

    other = Thread()
    other.available_us = 1000 * MS
    other.discovery.find()
    other.finds()
    other.passes(100)
    assert other.sent_ms == [0, 100]
    other.available_us = 0
    other.finds("b2/coordinator")
    assert other.discovery.coordinator == "b2/coordinator"


def test_a_refused_lookup_is_told_to_the_application_and_repeated() -> None:
    """``onFailedResponse`` keeps the fatal error for other managers, and counts the failure."""
    thread = Thread()
    thread.discovery.find()
    thread._answers[2](ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    thread.passes(100)

    assert (thread.refused, thread.sent_ms) == ([ErrorCode.GROUP_AUTHORIZATION_FAILED], [0, 100])


@given(st.lists(st.sampled_from(("find", "ready", "finds", "fails", "loses", "passes")), max_size=40))
def test_at_most_one_lookup_is_in_flight_and_none_while_the_coordinator_is_known(steps: list[str]) -> None:
    thread, open_lookups = Thread(), 0
    for step in steps:
        before = len(thread.sent_ms)
        known = thread.discovery.coordinator is not None
        if step == "find":
            thread.discovery.find()
        elif step == "ready":
            assert thread.discovery.ready() is known
        elif step == "loses":
            thread.discovery.lose_coordinator("moved")
        elif step == "passes":
            thread.passes(60)
        elif open_lookups:
            open_lookups -= 1
            thread.finds() if step == "finds" else thread.fails()
        open_lookups += len(thread.sent_ms) - before
        assert open_lookups <= 1
        assert not known or len(thread.sent_ms) == before
