"""Members of the consumer protocol, beside the cases of Kafka's own tests (``tests/kafka_tests``).

The steps have the words of those cases: ``tests/vectors/kafka_tests/ConsumerHeartbeatRequestManagerTest.toml``.
"""

from itertools import pairwise
from typing import Any

import pytest

from kemu.actors.consumer.passes import LEFT
from kemu.protocol.commands import StopPolling
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.data import Fetch, ListOffsets, Metadata
from kemu.protocol.messages.group import OffsetFetch
from kemu.protocol.notes.groups import CallbackReturned, PartitionsAssigned, PartitionsLost, Processed
from kemu.protocol.rebalancing.client_rules import CLIENT_4_2
from tests.actors.consumer.consumer_harness import LATENCY_US, Harness
from tests.kafka_tests.client_runner import API, CLIENTS, ClientRunner, ScriptedCoordinator, reply_to

JOINED = {"run_ms": 100, "state": "STABLE"}


def play(*steps: Any, release: str = "4.3", first: str = "t 0-1", **config: Any) -> None:
    """A consumer makes these steps."""
    ClientRunner({"first": first, "config": config, "steps": steps}, release).run()


@pytest.mark.parametrize(("release", "is_fatal"), [("4.1", True), ("4.2", False)])
def test_before_4_2_it_is_fatal_to_leave_a_missing_group(release: str, is_fatal: bool) -> None:
    """AbstractHeartbeatRequestManager 4.1.1, 4.2.1."""
    end = {"states": "PREPARE_LEAVING LEAVING UNSUBSCRIBED", "state": "UNSUBSCRIBED"}
    fatal = {"state": "FAILED", "fails": "GROUP_ID_NOT_FOUND"}

    play(
        JOINED,
        {"do": ["unsubscribe"], "answers": ["GROUP_ID_NOT_FOUND"], "run_ms": 1000, **(fatal if is_fatal else end)},
        release=release,
    )


@pytest.mark.parametrize(("release", "processed"), [("4.1", "t-0"), ("4.3", "")])
def test_before_4_3_poll_returns_records_of_lost_partitions_before_their_callback(release: str, processed: str) -> None:
    """ConsumerMembershipManager 4.2.1, 4.3.0."""
    play(
        JOINED,
        {"hold": "heartbeats", "answers": ["FENCED_MEMBER_EPOCH"], "run_ms": 5030, "states": ""},
        {"release": "heartbeats", "run_ms": 5, "states": "FENCED", "callbacks": []},
        {"append": "t 0", "run_ms": 2, "processed": processed},
        {"run_ms": 300, "state": "STABLE"},
        release=release,
        first="t 0",
    )


@pytest.mark.parametrize(("append", "processed"), [("", ""), ("t 0", "t-0"), ("t 1", "")])
def test_records_of_a_partition_that_is_being_revoked_end_the_wait_of_poll(append: str, processed: str) -> None:
    """They are in the buffer, and no poll() returns them (FetchBuffer.awaitNotEmpty, FetchCollector 4.0.1, 4.1.1)."""
    play(
        JOINED,
        {"hold": "heartbeats", "answers": [{"epoch": 2, "assignment": "t 0"}], "run_ms": 5030, "states": ""},
        {"release": "heartbeats", "run_ms": 5, "states": "RECONCILING", "callbacks": []},
        {"append": append, "run_ms": 2, "processed": processed, "callbacks": ["revoked t-1"] if append else []},
        {"run_ms": 300, "state": "STABLE"},
        release="4.1",
    )


def test_a_late_poll_without_a_coordinator_does_not_end_the_membership() -> None:
    """AbstractHeartbeatRequestManager.poll 4.0 to 4.3 checks the poll timer with a coordinator only."""
    play(
        JOINED,
        {"do": ["busy 12000"], "answers": ["NOT_COORDINATOR"], "no_coordinator": 12, "run_ms": 13000, "states": ""},
        {"run_ms": 9000, "begins": True, "sent": [{"epoch": 1, "owned": "t 0 1"}], "states": "", "callbacks": []},
        max_poll_interval_ms=10000,
    )


def test_a_late_member_leaves_as_soon_as_it_has_a_coordinator() -> None:
    """AbstractHeartbeatRequestManager.poll 4.0 to 4.3."""
    play(
        JOINED,
        {
            "do": ["busy 30000"],
            "answers": ["NOT_COORDINATOR"],
            "no_coordinator": 12,
            "run_ms": 20000,
            "state": "STALE",
        },
        max_poll_interval_ms=10000,
    )


def test_heartbeats_continue_while_close_runs_a_callback() -> None:
    """AsyncKafkaConsumer.close 4.0 to 4.3: the network thread works until the member has left."""
    play(
        JOINED,
        {"do": ["close"], "run_ms": 11000, "sent": [{"after_ms": 4904, "epoch": 1}, {"after_ms": 9904, "epoch": 1}]},
        {"run_ms": 2000, "sent": [{"after_ms": 1000, "epoch": -1}], "callbacks": ["revoked t-0 t-1"]},
        emulated_on_revoked_ms=12000,
    )


def test_unsubscribe_waits_for_the_answer_until_default_api_timeout_ms() -> None:
    """AsyncKafkaConsumer.unsubscribe 4.0 to 4.3. The next join waits for the request in flight."""
    play(
        JOINED,
        {"hold": "heartbeats", "do": ["unsubscribe", "subscribe t"], "run_ms": 2999, "state": "UNSUBSCRIBED"},
        {"run_ms": 1, "states": "JOINING", "sent": []},
        {"release": "heartbeats", "run_ms": 100, "begins": True, "sent": [{"epoch": 0}], "state": "STABLE"},
        default_api_timeout_ms=3000,
    )


class Turns:
    """Draws of ``poll.turn`` in this order (us), or of another draw, and nothing else."""

    def __init__(self, *turns_us: int, of: DrawName = DrawName.POLL_TURN) -> None:
        self.turns_us = list(turns_us)
        self.of = of

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        """The next turn, or the calm value of any other draw."""
        return self.turns_us.pop(0) if name is self.of else calm_us

    def identity(self, readable: str) -> str:
        """The readable text."""
        return readable


def polling(draws: Turns, protocol: str = "consumer") -> ScriptedCoordinator:
    """A consumer that calls poll(100 ms) since the time 0."""
    return ScriptedCoordinator({"t": 4}, draws=draws, group_protocol=protocol, enable_auto_commit=False)


def test_a_poll_without_records_takes_its_timeout_and_its_turn() -> None:
    harness = polling(Turns(37_000))

    harness.run(1_000_000)

    began_us, ends_us = harness.consumer.poll_span_us
    assert began_us % 137_000 == 0 and ends_us - began_us == 137_000
    assert 137_000 < began_us <= harness.consumer.now_us < ends_us


def test_a_fenced_member_runs_its_callback_when_the_next_poll_begins() -> None:
    harness = polling(Turns(37_000))
    harness.run(1_000_000)
    harness.answer_next(API, lambda request: reply_to("FENCED_MEMBER_EPOCH", request))

    harness.run(6_000_000)

    (lost_us,) = [at for at, fact in harness.noted_at if isinstance(fact, PartitionsLost)]
    assert lost_us == 37 * 137_000 > 5_006_000


def test_the_next_turn_is_drawn_after_records() -> None:
    draws = Turns(37_000, 5_000)
    harness = polling(draws)
    harness.run(1_000_000)
    assert draws.turns_us == [5_000]

    harness.append(("t", 0), 1)
    harness.run(500_000)

    assert len(harness.facts(Processed)) == 1 and draws.turns_us == []
    began_us, ends_us = harness.consumer.poll_span_us
    assert ends_us - began_us == 105_000


def test_the_classic_protocol_draws_no_turn() -> None:
    draws = Turns(37_000)
    polling(draws, "classic").run(1_000_000)

    assert draws.turns_us == [37_000]


def before_subscribe(wait_us: int, **config: Any) -> ScriptedCoordinator:
    """A consumer with auto-commit whose network thread works for this time before subscribe()."""
    draws = Turns(wait_us, of=DrawName.SUBSCRIBE_WAIT)
    return ScriptedCoordinator({"t": 4}, draws=draws, group_protocol="consumer", client=CLIENT_4_2, **config)


def metadata_of(harness: Harness) -> list[tuple[int, tuple[str, ...] | None]]:
    """(time in ms, topics) of each Metadata request."""
    return [(at // 1000, message.topics) for at, _, message in harness.sent if isinstance(message, Metadata)]


def test_topics_of_subscribe_during_the_first_metadata_request_wait_for_the_backoff() -> None:
    """Metadata.update 4.2.1: lastRefreshMs is the time of the answer. Two of four first consumers of 4.2.1 in a process
    that had run classic ones did so.
    """
    harness = before_subscribe(500).run(1_000_000)

    assert metadata_of(harness) == [(0, ()), (102, ("t",))]


def test_topics_of_subscribe_after_the_first_metadata_request_are_requested_at_once() -> None:
    """Metadata.requestUpdateForNewTopics 4.2.1."""
    harness = before_subscribe(40_000).run(1_000_000)

    assert metadata_of(harness) == [(0, ()), (40, ("t",))]


def test_a_member_acknowledges_with_each_answer_until_metadata_has_the_names_of_its_topics() -> None:
    """AbstractMembershipManager.maybeReconcile 4.0.1 to 4.3.0: without the application's thread, also with
    auto-commit. A real member of 4.2.1 sent eight heartbeats in 16 ms.
    """
    harness = before_subscribe(500, emulated_poll_timeout_ms=10).run(1_000_000)

    beats = [(at, message) for at, _, message in harness.sent if isinstance(message, ConsumerGroupHeartbeat)]
    owned = [
        None if message.owned is None else sum(len(row.partitions) for row in message.owned) for _, message in beats
    ]
    assert owned[:2] == [0, 0] and owned[-1] == 2
    assert len(owned) > 20 and set(owned[2:-1]) == {None}
    assert {later - at for (at, _), (later, _) in pairwise(beats[1:20])} == {2 * LATENCY_US}
    assigned = [fact.owned for fact in harness.facts(PartitionsAssigned)]
    assert assigned == [(), (("t", 0), ("t", 1))]


def beats_of(draws: Turns, first: str) -> list[int]:
    """The times (ms) of the first heartbeat and of the acknowledgements; the draw is made once."""
    harness = ScriptedCoordinator({"t": 4}, draws=draws, group_protocol="consumer", client=CLIENT_4_2)
    harness.first = first
    harness.run(11_000_000)
    assert draws.turns_us == []
    sent = [(at, message) for at, _, message in harness.sent if isinstance(message, ConsumerGroupHeartbeat)]
    return [at // 1000 for at, message in sent if message.owned is not None]


def test_the_first_heartbeat_of_a_member_waits_for_its_draw() -> None:
    """JVMs load classes between the coordinator's name and the first heartbeat; later heartbeats have no such wait."""
    (exact_ms, _), (late_ms, _) = (
        beats_of(Turns(0, of=DrawName.FIRST_BEAT), ""),
        beats_of(Turns(37_000, of=DrawName.FIRST_BEAT), ""),
    )

    assert late_ms - exact_ms == 37


@pytest.mark.parametrize("first", ["", "t 0-1"])
def test_a_member_adopts_an_empty_first_assignment_after_its_draw(first: str) -> None:
    """A first assignment with partitions waits for ``first.join`` instead."""
    spans_ms = []
    for wait_us in (0, 13_000, 250_000):  # a pass of poll(100 ms) begins the adoption
        began_ms, acknowledged_ms = beats_of(Turns(wait_us, of=DrawName.FIRST_ACK), first)
        spans_ms.append(acknowledged_ms - began_ms)

    assert spans_ms[0] == spans_ms[1] < 100
    assert spans_ms[2] == (spans_ms[0] if first else 250 + 2 * LATENCY_US // 1000)


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_classes_of_a_first_assignment_delay_its_callback_by_their_time_alone(release: str) -> None:
    """The request for positions at three quarters of this time does not end the wait: until 4.1 the callback waited for
    the next poll() in a third of the runs of a plan.
    """
    spans_ms = []
    for wait_us in (0, 12_000):
        draws = Turns(wait_us, of=DrawName.FIRST_JOIN)
        harness = ScriptedCoordinator({"t": 4}, draws=draws, group_protocol="consumer", client=CLIENTS[release])
        harness.run(1_000_000)
        began, acknowledged = [
            at
            for at, _, message in harness.sent
            if isinstance(message, ConsumerGroupHeartbeat) and message.owned is not None
        ]
        spans_ms.append((acknowledged - began) // 1000)

    assert spans_ms[1] - spans_ms[0] == 12


class Ready:
    """The application's thread is slower than the network thread, and begins each pass with an event."""

    def below(self, bound: int) -> int:
        """The last one; 0 of eight, so that the thread has noticed the end of its event."""
        return 0 if bound == LEFT else bound - 1


def asked_in_callback(release: str, **errors: ErrorCode) -> list[str]:
    """The requests for positions around onPartitionsAssigned, which takes 5 s; these APIs have one error first."""
    harness = ScriptedCoordinator(
        {"t": 1},
        client=CLIENTS[release],
        group_protocol="consumer",
        enable_auto_commit=False,
        emulated_on_assigned_ms=5000,
    )
    harness.first, harness.consumer.chance = "t 0", Ready()
    for api, error in errors.items():
        harness.answer_next(api, error)
    harness.run(20_000_000)
    (until_us,) = [at for at, fact in harness.noted_at if isinstance(fact, CallbackReturned)]
    return [
        f"{type(message).__name__} {'before' if at < until_us else 'after'}"
        for at, _, message in harness.sent
        if isinstance(message, OffsetFetch | ListOffsets)
    ]


@pytest.mark.parametrize(("release", "when"), [("4.1", "after"), ("4.2", "before"), ("4.3", "after")])
def test_a_missing_offset_is_followed_by_listoffsets_during_the_callback(release: str, when: str) -> None:
    """The network thread continues an event that began before the callback: AsyncPollEvent, OffsetsRequestManager
    4.2.0. In 4.3 the partitions are assigned after the event.
    """
    assert asked_in_callback(release) == [f"OffsetFetch {when}", f"ListOffsets {when}"]


def test_the_network_thread_repeats_offsetfetch_but_not_listoffsets_during_a_callback() -> None:
    """CommitRequestManager.fetchOffsetsWithRetries, OffsetsRequestManager.sendListOffsetsRequestsAndResetPositions
    4.2.0: a failed ListOffsets ends the event, and the next event asks again.
    """
    again = asked_in_callback("4.2", OffsetFetch=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    later = asked_in_callback("4.2", ListOffsets=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert again == ["OffsetFetch before", "OffsetFetch before", "ListOffsets before"]
    assert later == ["OffsetFetch before", "ListOffsets before", "ListOffsets after"]


@pytest.mark.parametrize(("release", "fetches"), [("4.1", False), ("4.2", True), ("4.3", True)])
def test_the_search_for_positions_continues_after_a_poll_that_timed_out(release: str, fetches: bool) -> None:
    """The answer to OffsetFetch leads to ListOffsets, whatever the application's thread does
    (OffsetsRequestManager.updatePositionsWithOffsets 4.1.1). Until 4.1 only poll() fetches.
    """
    harness = ScriptedCoordinator({"t": 1}, client=CLIENTS[release], group_protocol="consumer")
    harness.first, harness.consumer.chance = "t 0", Ready()
    harness.hold("OffsetFetch")
    harness.run_until(lambda: bool(harness.requests(OffsetFetch)))
    harness.tell(StopPolling(for_us=5_000_000))
    harness.run(1_000_000)
    harness.forget()
    harness.release("OffsetFetch")
    harness.run(1_000_000)

    sent = [type(message) for _, _, message in harness.sent if isinstance(message, ListOffsets | Fetch)]
    assert sent == [ListOffsets, Fetch][: 1 + fetches]
