"""Raw requests to a real coordinator and to the machine: recorded conversations, and the tools around them.

Nothing here starts Java: what a real Kafka answered is in ``tests/data/raw-requests``.
"""

import asyncio
import socket
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from kemu.emulator.checkers.membership import MembershipRules
from kemu.emulator.facts import HostStarted, Seen
from kemu.emulator.judging import judge
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import group as messages
from kemu.protocol.profiles import PROFILES
from lab.conformance.maven import RealKafkaError
from lab.conformance.raw import recordings, wire
from lab.conformance.raw.__main__ import main
from lab.conformance.raw.alone import replay
from lab.conformance.raw.asking import Talker
from lab.conformance.raw.comparing import compare, differences
from lab.conformance.raw.drawing import CLEAR_MS, Versions, draw
from lab.conformance.raw.mixed_drawing import draw_mixed
from lab.conformance.raw.settings import CLASSIC, MIXED, broker_config, versions_of
from lab.conformance.raw.steps import REQUESTS, Answer, Conversation, from_row, symbol, to_row
from lab.conformance.real_broker import RealBroker, profile_of, unpacked

RECORDED = recordings.read_all(recordings.KEPT[CLASSIC])
MIXED_RECORDED = recordings.read_all(recordings.KEPT[MIXED])
CONFIG = broker_config(PROFILES["kafka-3.4"].broker)


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.about.kafka for each in RECORDED])
def test_the_machine_answers_recorded_requests_as_kafka_did(recorded: recordings.RawRecording) -> None:
    """Every field of every answer, and when it came; ids by the step they were made up for."""
    config = broker_config(PROFILES[recorded.about.profile].broker)

    wrong = [each for talk in recorded.talks for each in compare(talk, config).differences]

    assert wrong == []
    assert sum(len(talk.answers) for talk in recorded.talks) > 2_000


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.about.kafka for each in RECORDED])
def test_what_kafka_answered_is_right_by_the_reference_coordinator(recorded: recordings.RawRecording) -> None:
    """The machine answers as Kafka did (see above), and tells what it read: ``membership`` has nothing to say."""
    config = broker_config(PROFILES[recorded.about.profile].broker)
    said = []
    for talk in recorded.talks:
        notes = [Seen(0, 0, "", 0, HostStarted(host="b0", life=1, kept_disk=True))]
        replay(talk, config, notes)
        checker = MembershipRules(config.group_initial_rebalance_delay_ms * 1_000, one_protocol_type=False)
        judge(notes, ended_us=talk.end_ms * 1_000, checkers=(checker,))
        said += [(talk.seed, each.kind, each.text) for each in checker.violations]

    assert said == []


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.about.kafka for each in RECORDED])
def test_the_recordings_have_every_request_with_several_outcomes(recorded: recordings.RawRecording) -> None:
    """A comparison that only sees refusals would say little."""
    seen: dict[str, set[ErrorCode]] = {}
    for talk in recorded.talks:
        for number, answer in talk.answers.items():
            if hasattr(answer.reply, "error"):
                seen.setdefault(talk.steps[number].api, set()).add(answer.reply.error)

    assert {api: len(errors) for api, errors in seen.items() if errors and api != "OffsetFetch"}.keys() == {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
    }
    for api in ("JoinGroup", "SyncGroup", "Heartbeat"):
        assert {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID} <= seen[api]
    assert any(answer is None for talk in recorded.talks for answer in map(talk.answers.get, range(len(talk.steps))))


@pytest.mark.parametrize("recorded", MIXED_RECORDED, ids=[each.about.kafka for each in MIXED_RECORDED])
def test_the_machine_answers_requests_of_both_protocols_as_kafka_did(recorded: recordings.RawRecording) -> None:
    """And these groups were converted in both directions."""
    config = broker_config(PROFILES[recorded.about.profile].broker, MIXED, recorded.about.policy)
    compared = [compare(talk, config) for talk in recorded.talks]

    assert [each.differences for each in compared if not each.equal] == []
    assert {protocol for each in compared for protocol in each.conversions} == {"classic", "consumer"}


def test_another_releases_coordinator_is_told_apart() -> None:
    """What 2.4 answers otherwise shows: the comparison can fail."""
    recorded = RECORDED[0]
    config = broker_config(PROFILES["kafka-2.4"].broker)

    assert any(not compare(talk, config).equal for talk in recorded.talks)


def test_an_answer_that_is_missing_late_or_other_is_a_difference() -> None:
    """Each is notes by its field."""
    talk = next(talk for talk in RECORDED[0].talks if talk.answers.get(0) is not None)
    first = talk.answers[0]
    ours, _ = replay(talk, CONFIG)
    missing = {number: answer for number, answer in talk.answers.items() if number}
    late = {**talk.answers, 0: Answer(first.at_ms + 2_000, first.reply)}

    found = [differences(attrs.evolve(talk, answers=answers), ours) for answers in (missing, late)]

    assert [[each.field for each in one] for one in found] == [["answered"], ["answered at"]]


def test_a_conversation_comes_back_from_its_line() -> None:
    """Requests, replies, bytes, error codes, ids."""
    for talk in RECORDED[0].talks[:20]:
        assert from_row(to_row(talk)) == talk


def test_releases_differ_in_groups_of_both_protocols() -> None:
    """A comparison with another release's rules shows it."""
    config = broker_config(PROFILES["kafka-4.0"].broker, MIXED)

    assert any(not compare(talk, config).equal for talk in MIXED_RECORDED[-1].talks)


# --- drawing -------------------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_sequence_each_time() -> None:
    """And another seed another one."""
    first, again, other = (draw(seed, CONFIG, Versions(), length=20) for seed in (7, 7, 8))

    assert first == again != other
    assert len(first.steps) == 20


def test_no_request_is_drawn_near_a_timer() -> None:
    """A real broker may see either first."""
    for seed in range(40):
        drawn = draw(seed, CONFIG, Versions(), length=20)
        ids = {number: symbol(number) for number in range(len(drawn.steps))}
        _, fired_ms = replay(Conversation(seed, drawn.end_ms, drawn.steps, {}, ids), CONFIG)
        at_once = {step.at_ms for step in drawn.steps}  # a join phase that waits for ids alone lasts no time
        gaps = [abs(step.at_ms - at_ms) for step in drawn.steps for at_ms in fired_ms if at_ms not in at_once]
        assert min(gaps, default=CLEAR_MS) >= CLEAR_MS - 1


def test_a_release_is_asked_in_its_versions_and_compared_with_its_profile() -> None:
    """KIP-896 took old versions away in 4.0; KIP-848 brought OffsetCommit v9."""
    assert [versions_of(release).join for release in ("2.4.1", "3.4.1", "4.0.0")] == [(0, 6), (0, 9), (2, 9)]
    assert [versions_of(release).commit for release in ("3.4.1", "3.9.1")] == [(2, 8), (2, 9)]
    assert [profile_of(release) for release in ("3.4.1", "3.5.2", "3.9.1", "4.1.0")] == [
        "kafka-3.4",
        "kafka-3.4",
        "kafka-3.9",
        "kafka-4.1",
    ]
    for release in ("1.0.0", "three"):
        with pytest.raises(RealKafkaError):
            profile_of(release)


def test_groups_of_both_protocols_are_drawn_with_both_and_are_converted() -> None:
    """Each client speaks its protocol, and some speak the other one later."""
    config = broker_config(PROFILES["kafka-4.0"].broker, MIXED)
    topics = {"t": "00000000-0000-0000-0000-000000000001", "u": "00000000-0000-0000-0000-000000000002"}
    asked: set[str] = set()
    conversions: set[str] = set()
    for seed in range(12):
        drawn = draw_mixed(seed, config, versions_of("4.0.2"), topics, length=24)
        asked.update(step.api for step in drawn.steps)
        ids = {number: symbol(number) for number in range(len(drawn.steps))}
        talk = Conversation(seed, drawn.end_ms, drawn.steps, {}, ids, topics=topics)
        conversions.update(compare(talk, config).conversions)

    assert asked == set(REQUESTS)
    assert conversions == {"classic", "consumer"}


# --- the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_join_is_written_as_kafkas_schema_has_it(version: int) -> None:
    """Read back by kafka-python's decoder."""
    from kafka.protocol.consumer.group import JoinGroupRequest

    asked = messages.JoinGroup(
        group="g",
        session_timeout_ms=1,
        rebalance_timeout_ms=2 if version >= 1 else -1,
        member_id="m",
        instance_id="i" if version >= 5 else None,
        protocol_type="consumer",
        protocols=(messages.JoinProtocol(name="range", metadata=b"x"),),
        reason="why" if version >= 8 else None,
    )
    data = wire.request_bytes(asked, version, 5, "c")
    found = JoinGroupRequest.decode(data[wire.HEADER_BYTES :], version=version, header=True)

    assert (found.header.client_id, found.header.correlation_id) == ("c", 5)
    assert (found.group_id, found.session_timeout_ms, found.member_id) == ("g", 1, "m")
    assert [(each.name, bytes(each.metadata)) for each in found.protocols] == [("range", b"x")]
    assert version < 5 or found.group_instance_id == "i"
    assert version < 8 or found.reason == "why"


def heartbeat_answer(correlation_id: int, throttle_ms: int = 0) -> bytes:
    """HeartbeatResponse v1 with error 27, with its length."""
    body = correlation_id.to_bytes(4, "big") + throttle_ms.to_bytes(4, "big") + (27).to_bytes(2, "big")
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (heartbeat_answer(1), None),
        (heartbeat_answer(2), "answer 2 came to request 1"),
        (heartbeat_answer(1, throttle_ms=3), "throttled"),
        (heartbeat_answer(1)[:-1], "IncompleteReadError"),
        (b"\x7f\x00\x00\x00", "an answer of 2130706432 bytes"),
    ],
)
def test_what_a_broker_says_is_read_or_refused(answer: bytes, says: str | None) -> None:
    """One clear error for what no Kafka says."""

    async def talk() -> object:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        talker = Talker(server.sockets[0].getsockname()[1])
        try:
            return await talker.ask("c", 1, messages.Heartbeat(group="g", generation=1, member_id="m"))
        finally:
            talker.close()
            server.close()

    if says is None:
        assert asyncio.run(talk()) == messages.HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    else:
        with pytest.raises(RealKafkaError, match=says):
            asyncio.run(talk())


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command_compares_what_is_recorded() -> None:
    """Exit 0, and what was compared."""
    done = CliRunner().invoke(main, [])

    assert done.exit_code == 0, done.output
    assert "with unexplained differences" in done.output
    assert " 0 with unexplained differences" in done.output


def test_the_command_shows_a_sequence_that_differs_and_says_so() -> None:
    """Exit 1."""
    done = CliRunner().invoke(main, ["--profile", "kafka-2.4"])

    assert done.exit_code == 1
    assert "    Kafka     " in done.output
    assert "    emulator  " in done.output


def test_bad_input_gets_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, nothing started."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "kafka-3.4.1.jsonl.gz").write_bytes(b"no gzip")
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments, says in (
        (["--maven", "3.4.1", "--kafka", str(tmp_path)], "leave one out"),
        (["--keep", "3"], "--maven VERSION or --kafka DIR"),
        (["--maven", "three"], '"three" is no release'),
        (["--maven", "0.9.0"], "older than all profiles"),
        (["--maven", "3.4.1"], "needs java"),
        (["--kafka", str(tmp_path)], "no Kafka: there is no libs/kafka-clients-RELEASE.jar"),
        (["--kept", str(tmp_path)], "no kafka-RELEASE.jsonl.gz there"),
        (["--kept", str(damaged)], "cannot be read"),
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert says in done.output.replace("\n", " ")


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The broker would say so after seconds, in its log."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(RealKafkaError, match=f"port {port} of 127.0.0.1 is taken"):
            RealBroker("3.4.1", tmp_path, tmp_path, {}, port)


def test_the_release_of_a_distribution_is_read_off_its_jars(tmp_path: Path) -> None:
    """As ``bin/kafka-run-class.sh`` finds them."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-clients-3.9.1.jar").touch()

    assert unpacked(tmp_path) == ("3.9.1", tmp_path / "libs")
