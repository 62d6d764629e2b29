"""Fetch sessions (KIP-227) in whole clusters: small caches, evictions, restarted brokers."""

from collections import Counter
from collections.abc import Sequence

import attrs
import pytest

from kemu.actors.machine import Received, Send
from kemu.emulator.facts import Handler, Seen, received, sent
from kemu.emulator.plan.actions import Crash
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FULL_EPOCH, NO_FETCH_SESSION
from kemu.protocol.messages.data import Fetch, FetchReply

TOML = """
name = "fetch-sessions"
duration = "40s"
[brokers]
count = 3
[brokers.config]
"offsets.topic.num.partitions" = 1
"max.incremental.fetch.session.cache.slots" = SLOTS
[brokers.replication]
session = "6s"
[topics.t]
partitions = 9
rate = "30/s"
[groups.g]
topics = ["t"]
members = 3
"""


class Wire:
    """Counts fetches and their answers by kind."""

    def __init__(self) -> None:
        self.fetches: Counter[tuple[str, str]] = Counter()
        """(reader's role, "full", "incremental", "listed rows") -> number."""
        self.answers: Counter[tuple[str, ErrorCode]] = Counter()

    def handlers_of(self, kind: type) -> Sequence[Handler]:
        if kind is sent(Fetch):
            return [self._fetch]
        return [self._answer] if kind is received(FetchReply) else []

    def _fetch(self, seen: Seen, fact: Send) -> None:
        request: Fetch = fact[4]
        role = "follower" if request.replica_id >= 0 else "consumer"
        self.fetches[role, "full" if request.session_epoch == FULL_EPOCH else "incremental"] += 1
        self.fetches[role, "listed rows"] += len(request.partitions)

    def _answer(self, seen: Seen, fact: Received) -> None:
        role = "follower" if seen.actor.startswith("b") else "consumer"
        self.answers[role, fact.message.error] += 1
        self.answers[f"{role} in a session", ErrorCode.NONE] += fact.message.session_id != NO_FETCH_SESSION


def watched(slots: int, *plan: Entry) -> tuple[RunResult, Wire]:
    """A run that holds, and its fetches."""
    wire = Wire()
    scenario = attrs.evolve(scenario_from_toml(TOML.replace("SLOTS", str(slots))), plan=plan)
    result = run(scenario, seed=1, loop="bare", observers=(wire,))
    assert result.verdict == "holds", result.reason
    return result, wire


def test_with_enough_slots_each_reader_keeps_one_session_with_each_leader() -> None:
    """No fault: a full fetch for each pair, then changes only."""
    _, wire = watched(1_000)

    assert wire.fetches["follower", "full"] == 6, "3 brokers follow 2 each"
    assert wire.fetches["consumer", "full"] <= 9, "3 members, 3 leaders"
    assert wire.fetches["follower", "incremental"] > 1_000
    assert wire.fetches["follower", "listed rows"] < 2 * wire.fetches["follower", "incremental"]
    assert set(wire.answers) <= {(each, ErrorCode.NONE) for each, _ in wire.answers}


def test_followers_evict_consumers_and_all_go_on() -> None:
    """Three slots a broker: two for followers, one for three members. The others list all their partitions each time.

    A restarted broker asks for a session beside that of its former life, and gets the consumer's slot.
    """
    _, few = watched(3, At("24s", Crash(host="b1", for_us=2_000_000)))
    _, many = watched(1_000)

    assert few.answers["follower in a session", ErrorCode.NONE] > 1_000
    assert few.answers["consumer", ErrorCode.FETCH_SESSION_ID_NOT_FOUND] > 0
    assert few.fetches["consumer", "full"] > 50 * many.fetches["consumer", "full"]
    assert few.answers["follower", ErrorCode.FETCH_SESSION_ID_NOT_FOUND] == 0


def test_without_slots_no_fetch_has_a_session() -> None:
    """max.incremental.fetch.session.cache.slots = 0."""
    _, wire = watched(0)

    assert wire.fetches["consumer", "incremental"] == wire.fetches["follower", "incremental"] == 0
    assert wire.answers["consumer in a session", ErrorCode.NONE] == 0


@pytest.mark.parametrize("down_s", [2, 20])
def test_followers_begin_new_sessions_with_a_restarted_broker(down_s: int) -> None:
    """Its sessions are gone. Its partitions are led by the others, and join the consumers' sessions there."""
    _, wire = watched(1_000, At("24s", Crash(host="b1", for_us=down_s * 1_000_000)))

    assert wire.fetches["follower", "full"] > 6
    assert wire.fetches["consumer", "full"] == 9
    assert wire.answers["consumer", ErrorCode.INVALID_FETCH_SESSION_EPOCH] == 0


def test_consumers_begin_new_sessions_with_a_restarted_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without replication the broker leads the same partitions after its restart."""
    monkeypatch.setattr(f"{__name__}.TOML", TOML.replace('[brokers.replication]\nsession = "6s"\n', ""))
    _, wire = watched(1_000, At("24s", Crash(host="b1", for_us=2_000_000)))

    assert wire.fetches["consumer", "full"] == 9 + 3
    assert wire.fetches["consumer", "incremental"] > 1_000
