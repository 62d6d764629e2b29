"""Answers of emulated brokers as frames for real clients."""

import pytest

from kemu.emulator.cluster.releases import Releases
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.server import for_serving
from kemu.emulator.serving.payloads import Payloads
from kemu.emulator.serving.translation import OFFERED, frame_of, requests_of
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, read_reply
from kemu.protocol.messages.group import OffsetFetch, OffsetFetchReply
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.versions import KAFKA_2_3, KAFKA_2_4, SpokenVersions
from kemu.protocol.profiles import PROFILES


def api_versions_of(release: SpokenVersions, version: int, read_as: int) -> WireReply:
    """The answer of a broker of this release to ApiVersions."""
    (asked,) = requests_of("b0", WireRequest(18, version, 7, "test", ApiVersions()))
    asked.answers.append(versions_reply(release))
    frame = frame_of(asked, str, Payloads(), {}, OFFERED)
    assert frame is not None
    return read_reply(frame[4:], 18, read_as)


@pytest.mark.parametrize(("release", "version"), [(KAFKA_2_3, 2), (KAFKA_2_4, 3)])
def test_a_broker_answers_the_versions_of_its_release(release: SpokenVersions, version: int) -> None:
    reply = api_versions_of(release, version, version)

    assert reply.message.error is ErrorCode.NONE
    assert {row.api_key: row.max_version for row in reply.message.api_keys}[18] == version
    assert {row.api_key for row in reply.message.api_keys} <= OFFERED


def test_a_broker_of_2_3_refuses_the_version_that_2_4_brought() -> None:
    """In version 0, so that each client can read the answer, and without versions (KIP-511)."""
    reply = api_versions_of(KAFKA_2_3, 3, 0)

    assert reply.correlation_id == 7
    assert reply.message.error is ErrorCode.UNSUPPORTED_VERSION
    assert reply.message.api_keys == ()


def test_offsets_of_several_groups_are_asked_one_after_the_other_and_answered_in_one_frame() -> None:
    """OffsetFetch since v8 (KIP-709); a broker's machines answer about one group."""
    groups = [OffsetFetch(group=name, topics=None) for name in ("g", "h")]
    asked = requests_of("b0", WireRequest(9, 9, 7, "test", groups[0], further=(groups[1],)))
    assert [each.message for each in asked] == groups
    assert [each.to for each in asked] == ["b0/coordinator"] * 2
    answers = [OffsetFetchReply(offsets=()), OffsetFetchReply(offsets=(), error=ErrorCode.NOT_COORDINATOR)]
    for each, answer in zip(asked, answers, strict=True):
        each.answers.append(answer)

    frame = frame_of(asked[-1], str, Payloads(), {}, OFFERED)

    assert frame is not None
    reply = read_reply(frame[4:], 9, 9)
    assert [reply.message, *reply.further] == answers
    assert reply.beside["group"] == ("g", "h")


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("kafka-3.9", {8: 9, 9: 9, 15: 5, 16: 5, 68: None, 69: None}),
        ("kafka-4.0", {8: 9, 9: 9, 15: 6, 16: 5, 68: 1, 69: 1}),
        ("kafka-4.1", {8: 9, 9: 9, 15: 6, 16: 5, 68: 1, 69: 1}),
        ("kafka-4.2", {8: 10, 9: 10, 15: 6, 16: 5, 68: 1, 69: 1}),
        ("kafka-4.3", {8: 10, 9: 10, 15: 6, 16: 5, 68: 1, 69: 1}),
    ],
)
def test_a_broker_offers_the_requests_of_groups_that_its_release_has(
    profile: str, expected: dict[int, int | None]
) -> None:
    """In 3.7 to 3.9 the consumer protocol is a preview, which is off by default. Topic ids in requests about offsets
    are unstable in 4.1.
    """
    scenario = scenario_from_toml("[topics.orders]\npartitions = 1\n[groups.g]\ntopics = ['orders']", name="any")
    release = Releases(scenario, PROFILES[profile], ["b0"]).offered_by("b0")

    offered = {row.api_key: row.max_version for row in api_versions_of(release, 3, 3).message.api_keys}

    assert {key: offered.get(key) for key in expected} == expected


def test_the_ids_of_a_served_cluster_are_uuids() -> None:
    """A topic id has 16 bytes on the wire, also in a scenario without other draws."""
    scenario = scenario_from_toml(
        'draws = "calm"\n[topics.orders]\npartitions = 1\n[groups.g]\ntopics = ["orders"]', name="any"
    )
    served = for_serving(scenario)

    assert not scenario.draws.identities
    assert served.draws.identities
    assert served.draws.of(DrawName.HEARTBEAT_WAIT) is None
