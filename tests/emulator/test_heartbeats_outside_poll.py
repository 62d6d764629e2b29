"""The draw ``heartbeat.alone``: heartbeats that are due while no poll() wakes the heartbeat thread."""

import pytest

from kemu.protocol.notes.groups import GroupBecame
from tests.emulator.test_draws import GROUP_OF_SIX, S, alone


def test_a_heartbeat_that_is_due_outside_of_poll_is_later_until_the_next_poll() -> None:
    """Beats of 3 s and of 4 s: the session of a dead member ends 10 s after its last beat."""
    text = GROUP_OF_SIX.replace("members = 6", "members = 6\nconfig.session.timeout.ms = 10000")

    def ended_us(alone_for: str, *plan: str) -> int:
        plans = [*plan, "crash host=c2 at=41s"]
        seen = alone(text, [f"draws.heartbeat.alone={alone_for}"], plans, GroupBecame)
        return [s.at_us for s in seen if s.fact.new == "PreparingRebalance"][1]

    polled = ended_us("1s")
    stops = "stop-polling host=c2 at=20s for="

    assert polled == ended_us("0s") == pytest.approx(ended_us("0s", stops + "30s"), abs=10_000), "last beat at 39 s"
    assert polled - ended_us("1s", stops + "30s") == pytest.approx(1 * S, abs=10_000), "at 38 s"
    assert ended_us("1s", stops + "1500ms") - polled == pytest.approx(S // 2, abs=10_000), "at 39.5 s: one beat late"
