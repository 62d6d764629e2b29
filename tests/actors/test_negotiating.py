"""Clients of brokers of several releases: ``NetworkClient`` asks each what it speaks before it sends anything else."""

from typing import Any

import pytest

from kemu.actors.client import DISCONNECTED, NO_VERSION, TIMED_OUT, Backoff, Client
from kemu.actors.machine import Event, LinkDown, Machine, Received, Send, TimerFired, Told
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Metadata, Produce
from kemu.protocol.messages.group import (
    FindCoordinator,
    FindCoordinatorReply,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetFetch,
)
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.versions import KAFKA_2_3, KAFKA_2_4, LATEST

S = 1_000_000


class Asker(Machine):
    """Asks what it is told to; keeps what comes of it."""

    def __init__(self) -> None:
        super().__init__("c1")
        self.client = Client(
            self, request_timeout_us=30 * S, reconnect=Backoff(50_000, 0), chance=None, negotiates=True
        )
        self.answers: list[Any] = []
        self.failures: list[tuple[str, Any]] = []

    def handle(self, event: Event) -> None:
        match event:
            case Received():
                self.client.reply_arrived(event)
            case LinkDown(peer=peer):
                self.client.connection_broke(peer, DISCONNECTED)
            case TimerFired():
                self.client.deadline_passed()
            case Told(command=command):
                command(self.client)

    def ask(self, message: object, version: int, *, to: str = "b0", at_us: int = 0, timeout_us: int = 0) -> list[Send]:
        def call(client: Client) -> None:
            client.call(to, message, version, self._answered, self._failed, message, timeout_us)

        return self.sent(Told(call), at_us)

    def sent(self, event: Event, at_us: int = 0) -> list[Send]:
        return [effect for effect in self.step(at_us, event) if isinstance(effect, Send)]

    def told(self, request: Send, message: object, at_us: int = 0) -> list[Send]:
        """A broker answers one of its requests."""
        return self.sent(Received(request.to, 1, request.request_id, request.version, message), at_us)

    def _answered(self, reply: Any, message: Any) -> None:
        self.answers.append(reply)

    def _failed(self, why: str, message: Any) -> None:
        self.failures.append((why, message))


FIND, BEAT = FindCoordinator(key="g"), Heartbeat(group="g", generation=1, member_id="m")
OLD = versions_reply(KAFKA_2_4)


def test_a_broker_is_asked_what_it_speaks_before_anything_else_is_sent_to_it() -> None:
    """NetworkClient.ready: a node is not, until its ApiVersions have come; then all that waited goes, in order."""
    asker = Asker()
    (asked,) = asker.ask(Metadata(topics=("t",)), LATEST["Metadata"])
    assert isinstance(asked.message, ApiVersions)
    assert asker.ask(FIND, LATEST["FindCoordinator"]) == []

    sent = asker.told(asked, OLD)

    assert [(type(each.message), each.version) for each in sent] == [
        (Metadata, KAFKA_2_4["Metadata"]),
        (FindCoordinator, KAFKA_2_4["FindCoordinator"]),
    ]


def test_the_highest_version_that_both_have_is_spoken_to_each_broker() -> None:
    """NodeApiVersions.latestUsableVersion: the broker's, if that is lower; never above the client's own."""
    asker = Asker()
    for to, versions in (("b0", KAFKA_2_4), ("b1", LATEST)):
        (asked,) = asker.ask(Metadata(topics=()), 10, to=to)
        (sent,) = asker.told(asked, versions_reply(versions))
        assert sent.version == min(10, versions["Metadata"])


def test_what_a_broker_speaks_is_asked_anew_on_every_connection() -> None:
    """NodeApiVersions go with the connection (NetworkClient.processDisconnection): it may be another release by now."""
    asker = Asker()
    (asked,) = asker.ask(FIND, 3)
    asker.told(asked, OLD)
    asker.step(1, LinkDown("b0"))

    (again,) = asker.ask(FIND, 3, at_us=2)

    assert isinstance(again.message, ApiVersions)
    assert [why for why, _ in asker.failures] == [DISCONNECTED]


def test_who_closes_waits_for_nobodys_versions_any_more() -> None:
    """NetworkClient.close: what was never on the wire goes with it, and an answer that comes late sends nothing."""
    asker = Asker()
    (asked,) = asker.ask(FIND, 3)

    asker.sent(Told(lambda client: client.close()), 1)

    assert asker.told(asked, OLD, 2) == []
    assert (asker.answers, asker.failures) == ([], [])


def test_requests_that_wait_fail_with_the_connection_and_are_not_sent_later() -> None:
    """Also those that were never on the wire."""
    asker = Asker()
    asker.ask(FIND, 3)
    asker.step(1, LinkDown("b0"))
    assert asker.failures == [(DISCONNECTED, FIND)]

    (asked,) = asker.ask(BEAT, 4, at_us=100_000)
    assert [type(each.message) for each in asker.told(asked, OLD, 100_001)] == [Heartbeat]


def test_requests_that_wait_run_out_of_time() -> None:
    """A broker that accepts connections and answers nothing: the request's own time counts, if that is shorter."""
    asker = Asker()
    asker.ask(BEAT, 4, timeout_us=5 * S)
    asker.step(5 * S, TimerFired(("deadline",)))

    assert asker.failures == [(TIMED_OUT, BEAT)]


def test_who_gave_up_meanwhile_is_not_answered_and_nothing_is_sent_for_it() -> None:
    """A request that is forgotten is as if it had never been made."""
    asker = Asker()
    asker.ask(FIND, 3)
    asker.sent(Told(lambda client: client.forget_requests("b0")))

    (asked,) = asker.ask(BEAT, 4)

    assert isinstance(asked.message, ApiVersions)
    assert [type(each.message) for each in asker.told(asked, OLD)] == [Heartbeat]


def test_answers_reach_whom_they_are_for() -> None:
    """Under the number that the request got when it was sent."""
    asker = Asker()
    (asked,) = asker.ask(FIND, 3)
    (sent,) = asker.told(asked, OLD)
    reply = FindCoordinatorReply(error=ErrorCode.NONE, node_id=1, host="b1")
    asker.told(sent, reply)

    assert asker.answers == [reply]


@pytest.mark.parametrize("is_known", [True, False])
def test_requests_are_written_as_an_older_broker_reads_them(is_known: bool) -> None:
    """OffsetFetchRequest.Builder: the flag falls back to false; LeaveGroupRequest.Builder: one member by its id."""
    fetch = OffsetFetch(group="g", topics=None, require_stable=True)
    leave = LeaveGroup(group="g", members=(LeavingMember(member_id="m", reason="it closes"),))
    asker = Asker()
    (asked,) = asker.ask(FIND, 3)
    sent = asker.told(asked, versions_reply(KAFKA_2_3)) if is_known else []
    sent += asker.ask(fetch, 7) + asker.ask(leave, 5)
    sent += [] if is_known else asker.told(asked, versions_reply(KAFKA_2_3))

    assert [each.message for each in sent[1:]] == [
        OffsetFetch(group="g", topics=None),
        LeaveGroup(group="g", member_id="m"),
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_broker_has_no_version_for_is_not_sent_and_fails_at_once(is_known: bool) -> None:
    """Several members at once leave since 2.4 (KIP-345). Source: ``NetworkClient.doSend``, versionMismatch.

    The connection stays, and nothing else on it is harmed.
    """
    leave = LeaveGroup(group="g", members=(LeavingMember(member_id="m"), LeavingMember(member_id="n")))
    asker = Asker()
    (asked,) = asker.ask(FIND, 3)
    if is_known:
        asker.told(asked, versions_reply(KAFKA_2_3))
    assert asker.ask(leave, 5) == []
    if not is_known:
        assert [each.message for each in asker.told(asked, versions_reply(KAFKA_2_3))] == [FIND]
    asker.step(1, TimerFired(("deadline",)))

    assert asker.failures == [(NO_VERSION, leave)]
    assert asker.client.awaits("b0")


def test_a_request_that_is_never_answered_waits_too() -> None:
    """acks=0 goes over the same connection."""
    asker = Asker()
    message = Produce(acks=0, timeout_ms=1, batches=())
    (asked,) = asker.sent(Told(lambda client: client.tell("b0", message, LATEST["Produce"])))
    (sent,) = asker.told(asked, OLD)

    assert (sent.message, sent.version) == (message, KAFKA_2_4["Produce"])
    (at_once,) = asker.sent(Told(lambda client: client.tell("b0", message, LATEST["Produce"])))
    assert at_once.version == KAFKA_2_4["Produce"]


def test_nobody_asks_where_all_brokers_are_of_one_release() -> None:
    """The answer is known, and every run stays as it was."""
    asker = Asker()
    asker.client = Client(asker, request_timeout_us=30 * S, reconnect=Backoff(50_000, 0), chance=None)
    (sent,) = asker.ask(FIND, 3)

    assert sent.message == FIND
