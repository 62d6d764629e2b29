"""Messages as facts: who asks for them by their class is shown the same live and from a trace, nobody else any."""

import io
from pathlib import Path
from typing import Any

import pytest

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers import checkers_for
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import Handler, Seen, is_of_the_wire, kind_of, received, sent
from kemu.emulator.judging import Judging
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.trace.traces import facts_of, read_trace
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply
from kemu.protocol.wire.codec import seal, unseal
from lab.bench.engine import steady
from tests.emulator.engine.toys import Watcher

S = 1_000_000


class Listener:
    """Watches everything of some kinds, as a checker does."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds
        self.seen: list[Seen] = []

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        return (self._take,) if not self.kinds or kind in self.kinds else ()

    def wants(self, kind: type) -> bool:
        return bool(self.handlers_of(kind))

    def _take(self, seen: Seen, fact: Any) -> None:
        assert seen.fact is fact
        self.seen.append(seen)


def recorded(tmp_path: Path, one: Run, sink: io.BytesIO) -> Path:
    one.run_with(lambda world, until_us: run_plain(world, min(until_us, 75 * S)))
    one.writer.finish("holds", one.world.now_us)
    path = tmp_path / "run.trace"
    path.write_bytes(sink.getvalue())
    return path


def as_its_version(seen: Seen) -> Seen:
    """With what the version carries of a message that was sent."""
    if type(seen.fact) is not Send:
        return seen
    _, _, _, version, message = seen.fact
    return seen._replace(fact=seen.fact._replace(message=unseal(seal(message, version))[0]))


@pytest.mark.parametrize("name", ["steady-group", "streams-scale-out", "coordinator-crash-replicated"])
def test_a_trace_shows_the_messages_that_crossed_the_wire_as_a_run_did(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    listener, sink = Listener(), io.BytesIO()
    path = recorded(tmp_path, Run(scenario, seed=2, sink=sink, observers=(listener,)), sink)

    assert list(facts_of(read_trace(path), listener.wants)) == list(map(as_its_version, listener.seen))
    kinds = {type(seen.fact) for seen in listener.seen}
    assert kinds >= {Send, Received}
    assert {Hangup, LinkDown} & kinds or name != "coordinator-crash-replicated"


def test_only_what_is_asked_for_is_shown_and_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    listener = Listener(sent(Heartbeat), received(HeartbeatReply), Hangup, LinkDown)
    watcher, sink = Watcher(), io.BytesIO()
    watched = Run(steady(2, 4, 10), seed=3, sink=sink, observers=(listener, watcher))
    path = recorded(tmp_path, watched, sink)
    alone = Run(steady(2, 4, 10), seed=3)
    alone.run_with(run_plain)

    assert {kind_of(seen.fact) for seen in listener.seen} == {sent(Heartbeat), received(HeartbeatReply)}
    asked = [seen.fact.request_id for seen in listener.seen if seen.actor == "c1" and type(seen.fact) is Send]
    answered = [seen.fact.request_id for seen in listener.seen if seen.actor == "c1" and type(seen.fact) is Received]
    assert asked == answered
    assert list(facts_of(read_trace(path))) == watcher.facts
    assert not any(is_of_the_wire(kind_of(seen.fact)) for seen in watcher.facts)
    assert watched.writer.digest() == alone.writer.digest()


@pytest.mark.parametrize("name", ["network-split", "store-election"])
def test_the_wire_s_checkers_find_the_same_in_a_trace_as_live(name: str, tmp_path: Path) -> None:
    """Told wrong settings they find a lot."""
    scenario, other = load_scenario(name), with_values(load_scenario(name), WRONG[name])
    sink = io.BytesIO()
    live = checkers_for(other)
    path = recorded(tmp_path, Run(scenario, seed=1, sink=sink, checkers=live), sink)

    judging = Judging(checkers_for(other))
    for seen in facts_of(read_trace(path), judging.wants):
        judging.see(seen)
    judging.finish(75 * S)
    for checker in live:
        checker.finish(75 * S)
    both = zip(live, judging.checkers, strict=True)
    wire = ("requests", "pace", "fields")
    of_the_wire = [(each.violations, again.violations) for each, again in both if each.name in wire]
    assert all(found == again for found, again in of_the_wire)
    assert sum(len(found) for found, _ in of_the_wire) > 10


WRONG = {
    "network-split": ["groups.g.config={'heartbeat.interval.ms' = 1000}"],
    "store-election": ["brokers.replication.session=9s"],
}
