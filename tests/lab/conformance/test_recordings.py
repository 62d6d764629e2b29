"""Reading recordings of a real cluster. The lines below are as Kafka 3.4.1 writes them, with short contents."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kemu.protocol.messages.member import Assignment, encode_assignment
from lab.conformance.recordings import RecordingError, read_recording, recorded_plans

PLAN = """\
# tiny

2 members, range; c2 is killed at 20 s.

Kafka 3.4.1. Times are UTC.

| t (s) | UTC | what |
|---|---|---|
| 0.000 | 2026-11-21T23:30:58.000Z | T0: first member is started |
| 0.000 | 2026-11-21T23:31:00.000Z | start c1 a=b |
| 0.500 | 2026-11-21T23:31:00.500Z | start c2 a=b |
| 10.000 | 2026-11-21T23:31:10.000Z | describe 10s |
| 20.000 | 2026-11-21T23:31:20.000Z | kill -9 of the process of c2 |
| 40.000 | 2026-11-21T23:31:40.000Z | end: everybody closes |
"""
C1 = "c1-76d7fae4-ed5b-4f3d-99ba-4eb7c6fadc95"
C2 = "c2-a122e5ea-9ad3-484b-882a-c8141e32067e"
GROUP = "g-tiny-1"
SERVER = f"""\
[2026-11-21 23:31:01,000] INFO [GroupCoordinator 0]: Preparing to rebalance group {GROUP} in state PreparingRebalance \
with old generation 0 (__consumer_offsets-41) (reason: Adding new member {C1} with group instance id None; client \
reason: rebalance failed due to MemberIdRequiredException) (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:02,000] INFO [GroupCoordinator 0]: Preparing to rebalance group other in state PreparingRebalance \
with old generation 0 (__consumer_offsets-4) (reason: x) (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:07,000] INFO [GroupCoordinator 0]: Stabilized group {GROUP} generation 1 (__consumer_offsets-41) \
with 2 members (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:07,050] INFO [GroupCoordinator 0]: Assignment received from leader {C1} for group {GROUP} for \
generation 1. The group has 2 members, 0 of which are static. (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:30,000] INFO [GroupCoordinator 0]: Preparing to rebalance group {GROUP} in state PreparingRebalance \
with old generation 1 (__consumer_offsets-41) (reason: removing member {C2} on heartbeat expiration) \
(kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:32,000] INFO [GroupCoordinator 0]: Stabilized group {GROUP} generation 2 (__consumer_offsets-41) \
with 1 members (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:32,020] INFO [GroupCoordinator 0]: Assignment received from leader {C1} for group {GROUP} for \
generation 2. The group has 1 members, 0 of which are static. (kafka.coordinator.group.GroupCoordinator)
[2026-11-21 23:31:40,100] INFO [GroupCoordinator 0]: Group {GROUP} with generation 3 is now empty \
(__consumer_offsets-41) (kafka.coordinator.group.GroupCoordinator)
"""


def logged(at: str, api: str, client: str, request: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    """A line of kafka.request.logger."""
    header = {"requestApiKeyName": api, "clientId": client}
    told = json.dumps({"requestHeader": header, "request": request, "response": response, "totalTimeMs": 1.5})
    return f"[2026-11-21 23:31:{at}] DEBUG Completed request:{told} (kafka.request.logger)\n"


def joined(at: str, client: str, member: str, generation: int, members: list[str]) -> str:
    """A JoinGroup that was answered."""
    told = [{"memberId": each} for each in members]
    answer = {"errorCode": 0, "generationId": generation, "leader": C1, "memberId": member, "members": told}
    return logged(at, "JOIN_GROUP", client, {"groupId": GROUP}, answer)


def synced(at: str, client: str, generation: int, partitions: list[int]) -> str:
    """A SyncGroup that was answered."""
    assignment = encode_assignment(Assignment(tuple((f"orders-{GROUP}", each) for each in partitions), b""))
    answer = {"errorCode": 0, "assignment": base64.b64encode(assignment).decode()}
    request = {"groupId": GROUP, "generationId": generation, "memberId": {"c1": C1, "c2": C2}[client]}
    return logged(at, "SYNC_GROUP", client, request, answer)


def called(at: str, who: str, event: str, partitions: list[int] | None = None, config: str = "") -> str:
    """A line of a process's callbacks."""
    data: dict[str, Any] = {"ts": f"2026-11-21T23:31:{at}000Z", "who": who, "event": event}
    if partitions is not None:
        data["partitions"] = [f"orders-{GROUP}-{each}" for each in partitions]
    if config:
        data["config"] = config
    return json.dumps(data) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of two members, one of which dies."""
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "plan.md").write_text(PLAN)
    (place / "server.log").write_text(SERVER)
    required = {"errorCode": 79, "memberId": C1, "members": []}
    lost = {"topics": [{"partitions": [{"errorCode": 0}, {"errorCode": 25}]}]}
    (place / "request.log").write_text(
        logged("00,900", "JOIN_GROUP", "c1", {"groupId": GROUP}, required)
        + joined("07,001", "c2", C2, 1, [])
        + joined("07,000", "c1", C1, 1, [C1, C2])
        + synced("07,060", "c1", 1, [0])
        + synced("07,061", "c2", 1, [1])
        + logged("09,000", "HEARTBEAT", "somebody-else", {}, {"errorCode": 27})
        + logged("09,000", "OFFSET_COMMIT", "c1", {}, lost)
        + joined("32,001", "c1", C1, 2, [C1])
        + synced("32,030", "c1", 2, [1, 0])
        + logged("40,500", "HEARTBEAT", "c1", {}, {"errorCode": 25})
    )
    (place / "callbacks.jsonl").write_text(
        called("00.100", "c1", "started", config=f"{{group.id={GROUP}, client.id=c1}}")
        + called("07.100", "c1", "assigned", [0])
        + called("31.000", "c1", "revoked", [0])
        + called("32.100", "c1", "assigned", [0, 1])
        + called("40.050", "c1", "revoked", [0, 1])
    )
    (place / "callbacks-c2.jsonl").write_text(called("07.200", "c2", "assigned", [1]))
    return place


def test_generations_are_read_from_the_coordinators_log(folder: Path) -> None:
    """GroupCoordinator (3.4): "Preparing to rebalance", "Stabilized", "Assignment received"."""
    first, second = read_recording(folder).rebalances

    assert (first.generation, first.members, first.leader) == (1, ("c1", "c2"), "c1")
    assert (first.began_ms, first.joined_ms, first.stable_ms) == (1_000, 7_000, 7_050)
    assert first.reason.startswith("Adding new member c1 with group instance id None; client reason: rebalance failed")
    assert (second.generation, second.members, second.took_ms) == (2, ("c1",), 2_020)
    assert second.reason == "removing member c2 on heartbeat expiration"


def test_generations_are_read_from_the_log_of_4_0_too(folder: Path) -> None:
    """GroupMetadataManager (4.0): other words after the generation, a full stop, another logger."""
    lines = SERVER.replace("(__consumer_offsets-41) ", "").replace("(kafka.coordinator.group.GroupCoordinator)", "")
    logger = "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
    told = [f"{line.rstrip()}{'.' if line.rstrip().endswith(')') else ''} {logger}" for line in lines.splitlines()]
    before = read_recording(folder)
    (folder / "server.log").write_text("\n".join(told))

    assert read_recording(folder).rebalances == before.rebalances


@pytest.mark.parametrize("epoch", ["", "@2"])
def test_owners_of_the_consumer_protocol_are_read_from_the_coordinators_log(folder: Path, epoch: str) -> None:
    """GroupMetadataManager (4.0 to 4.2). Since 4.3 the epoch of its assignment follows each partition."""
    at = "[2026-11-21 23:31:1{},000] INFO [GroupCoordinator id=0] [GroupId " + GROUP + "] "
    lines = [
        at.format(0) + "Bumped group epoch to 2 with metadata hash 7.",
        at.format(0) + f"Computed a new target assignment for epoch 2 with 'uniform' assignor in 0ms: {{{C1}="
        "MemberAssignment(partitions={T=[0, 1]}), " + C2 + "=MemberAssignment(partitions={T=[2]})}.",
        at.format(1) + f"Member {C1} new assignment state: epoch=2, previousEpoch=0, state=STABLE, "
        f"assignedPartitions=[T-0{epoch}, T-1{epoch}] and revokedPartitions=[].",
        at.format(4) + f"Member {C2} new assignment state: epoch=2, previousEpoch=0, state=STABLE, "
        f"assignedPartitions=[T-2{epoch}] and revokedPartitions=[].",
    ]
    (folder / "server.log").write_text("\n".join(lines))
    topics = {"topics": [{"topicId": "T", "name": f"orders-{GROUP}"}]}
    with (folder / "request.log").open("a") as log:
        log.write(logged("09,500", "METADATA", "c1", {}, topics))

    (seen,) = read_recording(folder).rebalances
    assert (seen.generation, seen.members, seen.took_ms) == (2, ("c1", "c2"), 4_000)
    assert seen.owners == {"c1": {"orders": (0, 1)}, "c2": {"orders": (2,)}}


def test_owners_are_read_from_the_answers_to_sync_group(folder: Path) -> None:
    """The topic is called "orders", whatever it was called there."""
    first, second = read_recording(folder).rebalances

    assert first.owners == {"c1": {"orders": (0,)}, "c2": {"orders": (1,)}}
    assert second.owners == {"c1": {"orders": (0, 1)}}


def test_hand_overs_are_read_from_members_that_had_an_assignment(folder: Path) -> None:
    """From the answer to JoinGroup to when SyncGroup came, which is 1.5 ms before it was answered."""
    assert read_recording(folder).hand_overs_ms == (27,)


def test_a_sync_group_of_an_older_generation_is_no_hand_over(folder: Path) -> None:
    """It was on its way when the next JoinGroup was answered."""
    requests = folder / "request.log"
    requests.write_text(requests.read_text() + joined("33,000", "c1", C1, 3, [C1]) + synced("34,000", "c1", 2, [1]))

    assert read_recording(folder).hand_overs_ms == (27,)


def test_downtime_is_read_from_the_callbacks_and_what_the_plan_did(folder: Path) -> None:
    """A killed process calls nothing back; what comes after the plan's end does not count."""
    assert read_recording(folder).downtime_ms == {"orders-0": ((31_000, 32_100),), "orders-1": ((20_000, 32_100),)}


def test_errors_are_those_of_members_before_the_plans_end(folder: Path) -> None:
    """One per answer, wherever it stands in it."""
    course = read_recording(folder)

    assert course.errors == {"JoinGroup MEMBER_ID_REQUIRED": 1, "OffsetCommit UNKNOWN_MEMBER_ID": 1}
    assert course.requests == {"JoinGroup": 4, "OffsetCommit": 1, "SyncGroup": 3}


def test_the_plan_counts_from_the_first_member_started(folder: Path) -> None:
    """T0 may have been earlier: the row of the first start says which UTC its time is."""
    course = read_recording(folder)

    assert course.until_ms == 40_000
    assert (20_000, "kill -9 of the process of c2") in course.timeline
    assert not any(what.startswith("describe") for _, what in course.timeline)


def test_plans_are_folders_with_a_plan_in_them(folder: Path) -> None:
    """Other folders are none."""
    (folder.parent / "raw").mkdir()

    assert recorded_plans(folder.parent) == ["tiny"]
    with pytest.raises(RecordingError, match="no recordings there"):
        recorded_plans(folder)


def test_plans_may_be_in_a_folder_for_each_release(folder: Path) -> None:
    release = folder.parent / "3.9.1"
    release.mkdir()
    folder.rename(release / folder.name)

    assert recorded_plans(folder.parent) == ["3.9.1/tiny"]


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("plan.md", "# nothing\n\nsummary\n", "no row says when a member was started"),
        ("plan.md", PLAN.replace("end: everybody", "all"), 'no row "end"'),
        ("callbacks.jsonl", "{", "callbacks.jsonl:1:"),
        ("server.log", None, "no server.log"),
        ("request.log", None, "no request.log"),
    ],
)
def test_a_recording_that_is_none_is_named_with_its_file(folder: Path, file: str, text: str | None, says: str) -> None:
    """One line that tells which file, and why."""
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)

    with pytest.raises(RecordingError, match=says) as refused:
        read_recording(folder)
    assert str(folder) in str(refused.value)
