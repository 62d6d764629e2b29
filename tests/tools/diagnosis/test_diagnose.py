"""Causes of real logs equal the causes that people read in them, and no damage of a log raises."""

import random
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.diagnosis.causes import CAUSES
from kemu.tools.diagnosis.diagnose import MEANS, NONE, UNKNOWN, diagnose
from kemu.tools.incident.incident import How, Incident, client_of
from kemu.tools.incident.sources import read_incident
from kemu.tools.logs.events import Event
from tests.tools.diagnosis.truth import NAMES, truth
from tests.tools.logs.excerpts import FOLDER


@pytest.mark.parametrize("name", NAMES)
def test_the_causes_are_those_that_people_read(name: str) -> None:
    assert sorted(diagnose(truth(name).events).causes) == sorted(truth(name).causes)


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_has_evidence_of_the_log_and_a_remedy_with_its_source(name: str) -> None:
    lines = {event.line for event in truth(name).events}
    for answer in diagnose(truth(name).events).answers:
        assert answer.cause in MEANS
        assert {event.line for event in answer.finding.evidence} <= lines
        if answer.cause in CAUSES:
            assert answer.finding.evidence
            assert answer.addressed_by
            assert all(remedy.text and remedy.source for remedy in answer.addressed_by)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_lines_does_not_matter_if_every_line_has_a_time(name: str) -> None:
    """Files may be sorted by newest first, or put together."""
    events = list(truth(name).events)
    if any(event.at_us is None for event in events) or len({event.at_us for event in events}) < len(events):
        return
    random.Random(name).shuffle(events)
    assert diagnose(events) == diagnose(truth(name).events)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_log_raises_nothing_and_invents_nothing(data: st.DataObject) -> None:
    """Lines are dropped, shuffled and lose their times, members and groups."""
    events = list(truth(data.draw(st.sampled_from(NAMES))).events)
    kept = data.draw(st.lists(st.sampled_from(events), max_size=2 * len(events)))
    torn = [_without(each, data.draw(st.sampled_from(TORN))) for each in kept]
    found = diagnose(torn)
    assert found.answers
    members = {event.member for event in kept}
    assert {row.member for row in found.timeline} <= members | {None}
    assert all(event in torn or attrs.evolve(event, group=None) in _without_group(torn) for answer in found.answers
               for event in answer.finding.evidence)  # fmt: skip


TORN = ("time", "at_us", "member", "group", "generation", "reason", "partitions", "cause", "error", "members")


def _without(event: Event, field: str) -> Event:
    fields: dict[str, Any] = {field: None}
    return attrs.evolve(event, **fields)


def _without_group(events: list[Event]) -> list[Event]:
    return [attrs.evolve(event, group=None) for event in events]


def test_a_log_without_a_record_of_a_group_is_unknown() -> None:
    assert diagnose([]).causes == (UNKNOWN,)


def test_a_departure_is_counted_once_though_two_lines_state_it() -> None:
    departures = Incident(truth("broker-2.2-expiry-markdown").events).departures
    assert [each.how for each in departures] == [How.EXPIRED]
    assert len(departures[0].events) == 2


def test_a_member_that_hears_of_a_rebalance_is_no_cause() -> None:
    """Only the member that joined is new; the refused one is a victim."""
    assert diagnose(truth("java-3.7-static-members-second-joins").events).causes == (NONE,)


def test_a_client_id_is_the_member_id_without_its_uuid() -> None:
    assert client_of("consumer-g2-1-7955b336-1002-4215-9d3d-086df8379af4") == "consumer-g2-1"
    assert client_of("****") == client_of(None) == ""


def test_a_poll_timeout_counts_though_its_line_names_no_group() -> None:
    """librdkafka's MAXPOLL names the handle, not the group."""
    event = Event(file="a.log", line=1, kind="poll-timeout", ms=255)
    assert diagnose([event]).causes == ("max-poll-interval-exceeded",)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("b-static-rolling", "none"),
        ("d-sticky-kill", "its own log is silent for 10.0 s before the expiry and ends there: a dead process"),
    ],
)
def test_all_logs_of_a_recording_give_the_cause(plan: str, says: str) -> None:
    """The request log and the clients name the coordinator differently; the coordinator did not move."""
    (answer,) = diagnose(read_incident([FOLDER.parent / "kafka-3.4.1" / "logs" / plan]).events).answers
    assert says in f"{answer.cause}: {answer.finding.says}"


_MEMBER = "c1-0af43615-a55a-44f1-9aa0-720bb08c0d70"


def _line(line: int, kind: str, at_s: float, **more: Any) -> Event:
    at_us = int(at_s * 1_000_000)
    return Event(file="a.log", line=line, kind=kind, at_us=at_us, group="g", member=_MEMBER, **more)


@pytest.mark.parametrize(
    ("own", "how"),
    [
        ([], "it did not take its assignment in poll()"),
        ([("assignment-synced", 60.0)], "it did not poll for 59.0 s"),
        ([("assignment-synced", 2.0), ("partitions-revoked", 61.0)], "its revocation, with the callback, took 59.0 s"),
    ],
)
def test_a_member_of_the_consumer_protocol_that_holds_back_a_partition_is_named(
    own: list[tuple[str, float]], how: str
) -> None:
    """Waits of members whose epoch rises at once, and revocations within a heartbeat interval, are no cause."""
    begins = _line(1, "member-reconciled", 1.0, state="UNREVOKED_PARTITIONS", generation=3, revoked=("orders-3",))
    lines = [_line(2 + place, kind, at_s, client="c1") for place, (kind, at_s) in enumerate(own)]

    def causes(end_s: float) -> tuple[str, ...]:
        end = _line(9, "member-reconciled", end_s, state="STABLE", generation=4)
        kept = [event for event in lines if (event.at_us or 0) < end_s * 1_000_000]
        (answer,) = diagnose([begins, *kept, end]).answers
        return answer.cause, answer.finding.says

    assert causes(61.0) == ("partitions-held-back", f"c1 held back orders-3 for 60.0 s: {how}")
    assert causes(10.9)[0] == "none"


@pytest.mark.parametrize(
    ("policy", "size", "reason"),
    [
        ("disabled", 10, "online upgrade is disabled"),
        ("bidirectional", 1, "exceeds the consumer group maximum size"),
        ("bidirectional", 10, ""),
    ],
)
def test_an_upgrade_that_the_coordinator_refuses_is_the_cause_of_the_failed_member(
    policy: str, size: int, reason: str, tmp_path: Path
) -> None:
    """The trace states the coordinator's message as the log of a real consumer does."""
    trace = tmp_path / "upgrade.kemu"
    run(_upgrade(policy, size), seed=1, trace=trace, loop="bare")

    (answer,) = diagnose(read_incident([trace]).events).answers
    if reason:
        assert answer.cause == "upgrade-refused"
        assert answer.finding.says == f"g stays a classic group: {reason}"
        assert {event.client for event in answer.finding.evidence} == {"c1"}
    else:
        assert answer.cause == NONE


def _upgrade(policy: str, size: int) -> Scenario:
    return scenario_from_toml(f"""
        profile = "kafka-4.0"
        duration = "18s"
        [topics.orders]
        partitions = 6
        [groups.g]
        topics = ["orders"]
        members = 3
        [brokers.config]
        group.consumer.migration.policy = "{policy}"
        group.consumer.max.size = {size}
        [[plan]]
        at = "10s"
        do = "rolling-upgrade"
        group = "g"
        hosts = ["c1"]
        every = "20s"
        down = "1s"
        settings = ["group.protocol=consumer"]
    """)


@pytest.mark.parametrize(
    ("line", "cause", "reason"),
    [
        (
            "[2026-11-20 10:00:00,001] INFO [GroupCoordinator id=0 topic=__consumer_offsets partition=3] Cannot upgrade"
            " classic group g to consumer group because online upgrade is disabled."
            " (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            "upgrade-refused",
            "g stays a classic group: online upgrade is disabled",
        ),
        (
            "[2026-11-20 10:00:00,001] ERROR [Consumer clientId=c1, groupId=g] ConsumerGroupHeartbeatRequest failed due"
            " to unexpected error GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because the"
            " group size exceeds the consumer group maximum size."
            " (org.apache.kafka.clients.consumer.internals.ConsumerHeartbeatRequestManager)",
            "upgrade-refused",
            "g stays a classic group: exceeds the consumer group maximum size",
        ),
        (
            "[2026-11-20 10:00:00,001] INFO [GroupCoordinator id=0 topic=__consumer_offsets partition=3] [GroupId g]"
            " [MemberId m2] Static member m2 with instance id s1 cannot join the group because the instance id is owned"
            " by member m1. (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            "static-id-not-released",
            "1 answer UNRELEASED_INSTANCE_ID",
        ),
        (
            "[2026-11-20 10:00:00,001] ERROR [Consumer clientId=c1, groupId=g] ConsumerGroupHeartbeatRequest failed due"
            " to unreleased instance id s1: Static member m2 with instance id s1 cannot join the group because the"
            " instance id is owned by m1 member."
            " (org.apache.kafka.clients.consumer.internals.ConsumerHeartbeatRequestManager)",
            "static-id-not-released",
            "1 answer UNRELEASED_INSTANCE_ID",
        ),
    ],
)
def test_a_refusal_of_a_group_of_the_consumer_protocol_is_read_in_the_lines_of_kafka(
    line: str, cause: str, reason: str, tmp_path: Path
) -> None:
    """Lines of brokers and of clients, each alone."""
    log = tmp_path / "some.log"
    log.write_text(line + "\n", encoding="utf-8")

    (answer,) = diagnose(read_incident([log]).events).answers
    assert (answer.cause, answer.finding.says) == (cause, reason)


def test_a_failed_member_without_a_known_cause_is_not_none() -> None:
    """A member of the consumer protocol that joins in the first join phase of a classic group fails for good."""
    failed = _line(2, "error-to-application", 2.0, client="c1", error="UNKNOWN_SERVER_ERROR")
    settled = _line(3, "assignment-received", 3.0, generation=1)
    back = _line(4, "partitions-assigned", 4.0, client="c1", generation=1)

    (answer,) = diagnose([failed, settled]).answers
    assert (answer.cause, answer.finding.evidence) == (UNKNOWN, (failed,))
    assert diagnose([failed, settled, back]).causes == (NONE,)
