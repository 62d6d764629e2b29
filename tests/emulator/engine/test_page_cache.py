"""What a host's disk holds after a power cut: what was flushed, and what the system wrote back (Linux)."""

import pytest

from kemu.actors.machine import Record
from kemu.emulator import facts
from kemu.emulator.engine.hosts import Condition, PageCache
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from tests.emulator.engine.toys import Watcher, small_world

S = 1_000_000
CUT = Condition.SILENT


class Writer:
    """Writes to the log of a host of the small world, as its machine would."""

    def __init__(self, cache: PageCache | None = None) -> None:
        self.watcher = Watcher()
        self.world: World = small_world()
        self.world.watch((self.watcher,))
        self.host = self.world.hosts["b0"]
        if cache is not None:
            self.host.disk.cache = cache
        self.actor = self.host.actors["b0"]

    def at(self, seconds: float) -> None:
        run_plain(self.world, int(seconds * S))

    def write(self, *values: str) -> None:
        self.host.disk.write_only(self.actor, "log", records(*values), self.world.now_us)

    def flush(self) -> None:
        self.world._flush(self.actor, "log")

    def left(self, how: Condition = CUT) -> list[str]:
        self.world.take_down(self.host, how)
        return [(value or b"").decode() for _, value in self.host.disk.logs.get("log", [])]

    def lost(self) -> list[facts.UnflushedLost]:
        return [seen.fact for seen in self.watcher.facts if isinstance(seen.fact, facts.UnflushedLost)]


def records(*values: str) -> tuple[Record, ...]:
    return tuple((b"", value.encode()) for value in values)


def test_a_process_that_dies_loses_nothing_that_was_written() -> None:
    writer = Writer()
    writer.write("a", "b")

    assert writer.left(Condition.CRASHED) == ["a", "b"]
    assert writer.lost() == []


def test_a_power_cut_takes_what_was_not_flushed_and_tells_what() -> None:
    writer = Writer()
    writer.write("a")
    writer.flush()
    writer.at(1)
    writer.write("b", "c")

    assert writer.left() == ["a"]
    assert writer.lost() == [facts.UnflushedLost(host="b0", logs=(("log", 2, -1),))]


def test_a_flush_covers_what_was_there_when_it_was_asked_for() -> None:
    writer = Writer()
    writer.write("a")
    writer.flush()
    writer.write("b")
    writer.at(1)

    assert writer.left() == ["a"]


@pytest.mark.parametrize(("cut_s", "left"), [(29.9, []), (30.1, ["a", "b"]), (34.9, ["a", "b"])])
def test_the_system_writes_back_a_file_that_was_dirty_for_thirty_seconds(cut_s: float, left: list[str]) -> None:
    """With all its pages, those of a moment ago too."""
    writer = Writer()
    writer.write("a")
    writer.at(29.8)
    writer.write("b")
    writer.at(cut_s)

    assert writer.left() == left


def test_the_flusher_wakes_every_five_seconds_only() -> None:
    """A file that is dirty since 12 s is 30 s old at 42 s; wake-ups are at 40 s and 45 s after the first page."""
    left = {}
    for cut_s in (44.9, 45.1):
        writer = Writer()
        writer.write("a")
        writer.flush()
        writer.at(12)
        writer.write("b")
        writer.at(cut_s)
        left[cut_s] = writer.left()

    assert left == {44.9: ["a"], 45.1: ["a", "b"]}


def test_what_is_written_after_a_write_back_is_dirty_again() -> None:
    writer = Writer()
    writer.write("a")
    writer.at(31)
    writer.write("b")
    writer.at(60)

    assert writer.left() == ["a"]


def test_without_wake_ups_nothing_is_written_back() -> None:
    """vm.dirty_writeback_centisecs 0."""
    writer = Writer(PageCache(wake_us=0))
    writer.write("a")
    writer.at(3_600)

    assert writer.left() == []


def test_a_flushed_append_takes_what_was_written_before_it_along() -> None:
    writer = Writer()
    writer.write("a")
    disk = writer.host.disk
    disk.finish(disk.issue(writer.actor, "log", records("b"), 1))

    assert writer.left() == ["a", "b"]


def test_what_a_dead_process_wrote_can_still_be_lost_with_the_power() -> None:
    writer = Writer()
    writer.write("a")
    writer.world.take_down(writer.host, Condition.CRASHED)
    writer.world.start(writer.host)

    assert writer.left() == []
