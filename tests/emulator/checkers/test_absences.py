"""Who must have noticed that a broker was gone: controllers that had the time, and no others."""

from typing import Any

import pytest

from kemu.emulator.checkers.absences import Absences
from kemu.emulator.facts import FaultApplied, FaultEnded, HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.protocol.nodes import CONTROLLER, CONTROLLER_EPOCH, broker_path, epoch_data
from kemu.protocol.notes.replication import NodeWritten

SECOND = 1_000_000
LONG, SHORT = 30, 10
"""Seconds: more and less than two sessions of 6 s, and two."""


class Told:
    """b0 controls; b1 loses power, and its registration ends."""

    def __init__(self) -> None:
        self.absences, self.now_us = Absences(6 * SECOND, lasting=(0,)), 0
        self.controls("b0")
        self.tell(HostDown(host="b1", life=1, how="power"))
        self.node(broker_path(1), "deleted", "b1")

    def tell(self, fact: Any) -> None:
        self.absences.on[type(fact)](Seen(0, self.now_us, "", 0, fact), fact)

    def wait(self, seconds: float) -> None:
        self.now_us += int(seconds * SECOND)

    def node(self, path: str, what: str, host: str, data: bytes = b"") -> None:
        self.tell(NodeWritten(what=what, path=path, data=data, version=0, zxid=0, client=f"{host}/controller"))

    def controls(self, host: str) -> None:
        self.node(CONTROLLER_EPOCH, "set", host, epoch_data(1))

    def back(self) -> None:
        """Started again and registered."""
        self.tell(HostStarted(host="b1", life=2, kept_disk=True))
        self.node(broker_path(1), "created", "b1")

    @property
    def was_noticed(self) -> bool:
        return self.absences.was_noticed("b1", self.now_us)


@pytest.mark.parametrize(("seconds", "noticed"), [(LONG, True), (SHORT, False)])
def test_a_controller_that_nothing_disturbs_hears_of_it_in_time(seconds: int, noticed: bool) -> None:
    told = Told()
    told.wait(seconds)

    assert told.was_noticed is noticed


def test_a_broker_that_is_back_at_once_was_gone_all_the_same() -> None:
    """KIP-380: its broker epoch is another."""
    told = Told()
    told.back()
    told.wait(LONG)

    assert told.was_noticed


def test_who_takes_office_when_the_broker_is_back_finds_it_alive() -> None:
    told = Told()
    told.node(CONTROLLER, "deleted", "b0")
    told.wait(LONG)
    told.back()
    told.controls("b2")
    told.wait(LONG)

    assert not told.was_noticed


@pytest.mark.parametrize(("seconds", "noticed"), [(LONG, True), (SHORT, False)])
def test_who_took_office_while_it_was_gone_may_have_looked_when_it_was_back(seconds: int, noticed: bool) -> None:
    """It has read who is there once it has had its time."""
    told = Told()
    told.controls("b2")
    told.wait(seconds)
    told.back()
    told.wait(LONG)

    assert told.was_noticed is noticed


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (HostPaused(host="b0"), HostResumed(host="b0")),
        (HostDown(host="zk", life=1, how="power"), HostStarted(host="zk", life=2, kept_disk=True)),
        (FaultApplied(index=0, kind="split", text=""), FaultEnded(index=0, kind="split")),
    ],
)
def test_what_disturbs_a_controller_gives_it_its_whole_time_again(begins: Any, ends: Any) -> None:
    told = Told()
    told.wait(SHORT)
    told.tell(begins)
    told.wait(LONG)
    told.tell(ends)
    told.wait(SHORT)
    assert not told.was_noticed

    told.wait(SHORT)
    assert told.was_noticed


def test_what_happens_elsewhere_disturbs_nobody() -> None:
    """Another broker stands still, and a fault that does not last is over."""
    told = Told()
    told.tell(FaultApplied(index=1, kind="disconnect", text=""))
    told.wait(SHORT)
    told.tell(HostPaused(host="b2"))
    told.wait(SHORT)

    assert told.was_noticed


def test_the_next_death_is_another_absence() -> None:
    told = Told()
    told.back()
    told.wait(LONG)
    told.tell(HostDown(host="b1", life=2, how="power"))

    assert not told.was_noticed
