"""Large replies are encoded and decoded once. Receivers get the sent object where decoding makes an equal one."""

import pytest
from attrs import evolve

from kemu.emulator.engine.mail import LARGE_BYTES, LARGE_KEPT, Decoding, LargeReplies, Unreadable, loss_of
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import MetadataReply, PartitionMetadata, TopicMetadata
from kemu.protocol.messages.group import OffsetCommit, OffsetToCommit
from kemu.protocol.wire.codec import seal

VERSION = 12


def metadata(partitions: int, controller: int = 1) -> MetadataReply:
    rows = tuple(
        PartitionMetadata(error=ErrorCode.NONE, partition=number, leader=1, replicas=(1,), isr=(1,))
        for number in range(partitions)
    )
    topic = TopicMetadata(error=ErrorCode.NONE, topic="t", partitions=rows)
    return MetadataReply(brokers=(), controller_id=controller, topics=(topic,))


def test_a_large_reply_is_encoded_once_and_decoded_once() -> None:
    replies, reply = LargeReplies(), metadata(500)

    first, second = replies.seal(reply, VERSION), replies.seal(reply, VERSION)

    assert first is second and len(first) >= LARGE_BYTES
    assert first == seal(reply, VERSION)
    assert replies.open(first) is replies.open(bytes(bytearray(first)))
    assert replies.open(first) == reply


def test_another_version_of_the_same_reply_has_its_own_bytes() -> None:
    replies, reply = LargeReplies(), metadata(500)

    assert replies.seal(reply, VERSION) == seal(reply, VERSION)
    assert replies.seal(reply, 1) == seal(reply, 1) != seal(reply, VERSION)


def test_a_small_reply_is_decoded_for_each_receiver() -> None:
    replies = LargeReplies()
    data = replies.seal(metadata(1), VERSION)

    assert replies.open(data) == replies.open(data)
    assert replies.open(data) is not replies.open(data)


def test_the_oldest_replies_are_dropped() -> None:
    replies = LargeReplies()
    first = replies.seal(metadata(500), VERSION)
    opened = replies.open(first)
    for controller in range(2, 2 + LARGE_KEPT):
        reply = metadata(500, controller)
        assert replies.open(replies.seal(reply, VERSION)) == reply

    assert replies.open(first) == opened
    assert replies.open(first) is not opened


def test_large_bytes_that_are_no_message_are_unreadable() -> None:
    with pytest.raises(Unreadable):
        LargeReplies().open(b"\x00" * LARGE_BYTES)


# --- the sent object instead of a decoded one ----------------------------------------------------------------------


def test_only_a_message_with_a_set_field_that_the_version_drops_loses_it() -> None:
    assert loss_of(MetadataReply, VERSION) is None
    loses = loss_of(OffsetCommit, 8)  # drops retention_time_ms, and topic_id of the rows
    assert loses is not None
    row = OffsetToCommit(topic="t", partition=0, offset=1)
    assert not loses(OffsetCommit(group="g", offsets=(row, row)))
    assert loses(OffsetCommit(group="g", offsets=(row,), retention_time_ms=5))
    assert loses(OffsetCommit(group="g", offsets=(row, evolve(row, topic_id="i"))))


@pytest.mark.parametrize("name", ["coordinator-failover-stable", "coordinator-crash-replicated"])
def test_a_run_with_decoded_messages_has_the_digest_of_a_run_with_sent_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for always in (True, False):
        monkeypatch.setattr(Decoding, "always", always)
        digests.add(run(load_scenario(name), seed=1, loop="bare").digest)

    assert len(digests) == 1
