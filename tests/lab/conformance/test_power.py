"""Plans alone notice an emulator without commits before rebalances, or with a wrong leader."""

from collections.abc import Callable

import pytest

from kemu.actors.consumer.rebalancing import Rebalancing
from kemu.actors.coordinator.members import Member, Members
from lab.conformance import plans

Break = Callable[[pytest.MonkeyPatch], None]


def commits_nothing_before_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against ``ConsumerCoordinator.onJoinPrepare`` (3.4.1)."""
    monkeypatch.setattr(Rebalancing, "_commit_before_join", lambda self: True)


def last_member_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against ``GroupMetadata.add`` (3.4.1): the first member leads."""
    add = Members.add

    def added(self: Members, member: Member) -> None:
        add(self, member)
        self.leader = member.member_id

    monkeypatch.setattr(Members, "add", added)


BREAKS: list[tuple[Break, str, str]] = [
    (commits_nothing_before_a_join, "a-range-rolling", "c1 OffsetCommit"),
    (last_member_leads, "b-static-rolling", "leader 1"),
]
"""Break, plan, row that notices the break."""


@pytest.mark.parametrize(("broken", "plan", "row"), BREAKS)
def test_two_runs_of_one_plan_notice_a_break(
    broken: Break, plan: str, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row agrees without the break (``test_members_are_answered_as_kafka_answered_them``)."""
    broken(monkeypatch)

    assert f"{plan}: {row}" in plans.differences([plan], seeds=2)


QUIET = ["a-range-rolling", "b-static-rolling", "c-coop-scale", "d-sticky-kill", "i-static-duplicate"]


def test_nothing_differs_without_a_break() -> None:
    assert plans.differences(QUIET, seeds=40, jobs=None) == []


@pytest.mark.parametrize("broken", [each[0] for each in BREAKS])
def test_plans_alone_notice_a_break(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """In more than one plan."""
    broken(monkeypatch)

    noticed = {row.partition(":")[0] for row in plans.differences(QUIET, seeds=40, jobs=None)}

    assert len(noticed) > 1
