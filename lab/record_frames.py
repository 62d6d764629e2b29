"""Record the frames that real clients send: ``python -m lab.record_frames``.

A socket on loopback answers as a broker of one topic with one partition would. Each client produces five records, reads
them back as the only member of a group, commits and leaves. ``tests/data/frames.json`` keeps at most two requests of
each client, API and version, as hexadecimal numbers without the frame's length.
"""

import asyncio
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import api_versions
from kemu.protocol.kafka_wire.batches import batch_summary, patch_base_offset
from kemu.protocol.kafka_wire.frames import (
    UnsupportedWireVersion,
    WireRequest,
    read_request,
    unsupported_reply,
    write_reply,
)
from kemu.protocol.messages import consumer_group, data, group
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.versions import KAFKA_3_4, LATEST, SpokenVersions

FILE = Path(__file__).parent.parent / "tests" / "data" / "frames.json"
TOPIC, GROUP, RECORDS = "orders", "readers", 5
MOST = 2
"""Recorded requests of one client, API and version."""
OK = ErrorCode.NONE
TOPIC_ID = "00000000-0000-4000-8000-000000000001"
KIP_848 = "confluent-kafka (KIP-848)"
"""The client with the consumer protocol, at a broker of 4.0."""
OF_4_0 = LATEST.but(ConsumerGroupHeartbeat=1, OffsetFetch=9)
FETCH_WAIT_S = 0.05


class RecordingBroker:
    """Answers of a broker with one partition."""

    def __init__(self, port: int, versions: SpokenVersions) -> None:
        self._address = f"127.0.0.1:{port}"
        self._offered = versions_reply(versions)
        self._batches: list[bytes] = []
        self._end = 0
        self.frames: list[bytes] = []

    def answer(self, frame: bytes) -> bytes | None:
        """The reply to a frame; None to close the connection."""
        self.frames.append(frame)
        try:
            request = read_request(frame)
        except UnsupportedWireVersion as error:
            return unsupported_reply(error, self._offered)
        if isinstance(request.message, ApiVersions):
            return write_reply(request, api_versions(self._offered))
        reply, records = self._reply(request)
        beside = {"group": (GROUP,)} if isinstance(reply, group.OffsetFetchReply) else {}
        return write_reply(request, reply, records=records, beside=beside)

    def _reply(self, request: WireRequest) -> tuple[Any, dict[Any, bytes]]:
        records: dict[Any, bytes] = {}
        match request.message:
            case data.Metadata():
                row = data.PartitionMetadata(error=OK, partition=0, leader=0, leader_epoch=0, replicas=(0,), isr=(0,))
                topic = data.TopicMetadata(error=OK, topic=TOPIC, topic_id=TOPIC_ID, partitions=(row,))
                node = data.BrokerMetadata(node_id=0, host=self._address)
                return data.MetadataReply(brokers=(node,), controller_id=0, topics=(topic,)), records
            case group.FindCoordinator():
                return group.FindCoordinatorReply(error=OK, node_id=0, host=self._address), records
            case data.InitProducerId():
                return data.InitProducerIdReply(error=OK, producer_id=1000, producer_epoch=0), records
            case data.Produce(batches=produced):
                made = [self._appended(request, each) for each in produced]
                return data.ProduceReply(batches=tuple(made)), records
            case data.ListOffsets(questions=questions):
                asked = [(each, 0 if each.timestamp_ms == data.EARLIEST_TIMESTAMP else self._end) for each in questions]
                found = [
                    data.OffsetAnswer(topic=each.topic, partition=each.partition, error=OK, offset=offset)
                    for each, offset in asked
                ]
                return data.ListOffsetsReply(answers=tuple(found)), records
            case data.Fetch(partitions=partitions):
                for each in partitions:
                    kept = [batch for batch in self._batches if batch_summary(batch).base_offset >= each.fetch_offset]
                    records[each.topic, each.partition] = b"".join(kept)
                if not any(records.values()):
                    time.sleep(FETCH_WAIT_S)
                rows = [
                    data.FetchedPartition(
                        topic=each.topic, partition=each.partition, error=OK, high_watermark=self._end
                    )
                    for each in partitions
                ]
                return data.FetchReply(partitions=tuple(rows)), records
        return _member_reply(request.message), records

    def _appended(self, request: WireRequest, batch: data.ProduceBatch) -> data.ProducedBatch:
        base = self._end
        self._batches.append(patch_base_offset(request.records[batch.topic, batch.partition], base, 0))
        self._end += batch.count
        return data.ProducedBatch(topic=batch.topic, partition=batch.partition, error=OK, base_offset=base)


def _member_reply(asked: Any) -> Any:
    """The reply to the only member of a group."""
    match asked:
        case consumer_group.ConsumerGroupHeartbeat(member_epoch=epoch):
            rows = (consumer_group.TopicNumbers(topic_id=TOPIC_ID, partitions=(0,)),)
            return consumer_group.ConsumerGroupHeartbeatReply(
                error=OK, member_id=asked.member_id, member_epoch=epoch or 1, heartbeat_interval_ms=200,
                assignment=None if epoch else rows,
            )  # fmt: skip
        case group.JoinGroup(member_id="", protocols=_):
            return group.JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, protocol_name="", member_id="member-1")
        case group.JoinGroup(member_id=member, protocols=(first, *_)):
            row = group.JoinedMember(member_id=member, instance_id=asked.instance_id, metadata=first.metadata)
            return group.JoinGroupReply(
                error=OK, generation=1, protocol_type=asked.protocol_type, protocol_name=first.name, leader=member,
                member_id=member, members=(row,),
            )  # fmt: skip
        case group.SyncGroup(assignments=assignments):
            mine = b"".join(each.assignment for each in assignments if each.member_id == asked.member_id)
            return group.SyncGroupReply(
                error=OK, protocol_type=asked.protocol_type, protocol_name=asked.protocol_name, assignment=mine
            )
        case group.Heartbeat():
            return group.HeartbeatReply(error=OK)
        case group.OffsetFetch(topics=topics):
            named = [(each.topic, number) for each in topics or () for number in each.partitions]
            found = [
                group.FetchedOffset(topic=topic, partition=number, metadata="", error=OK) for topic, number in named
            ]
            return group.OffsetFetchReply(offsets=tuple(found))
        case group.OffsetCommit(offsets=offsets):
            done = [group.OffsetOutcome(topic=each.topic, partition=each.partition, error=OK) for each in offsets]
            return group.OffsetCommitReply(outcomes=tuple(done))
        case group.LeaveGroup(members=members):
            left = [
                group.LeftMember(member_id=each.member_id, instance_id=each.instance_id, error=OK) for each in members
            ]
            return group.LeaveGroupReply(error=OK, members=tuple(left))
    raise ValueError(f"no answer to {asked}")


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with suppress(OSError):  # a client that leaves does not wait for its last answers
            while head := self._read(4):
                answer = server.broker.answer(self._read(int.from_bytes(head, "big")))
                if answer is None:
                    return
                self.request.sendall(answer)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.request.recv(size - len(found))
            if not part:
                return b""
            found += part
        return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


# --- clients -------------------------------------------------------------------------------------------------------


def _kafka_python(address: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)
    for number in range(RECORDS):
        producer.send(TOPIC, b"record-%d" % number).get(timeout=10)
    producer.close()
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=address, group_id=GROUP, auto_offset_reset="earliest",
                             heartbeat_interval_ms=200)  # fmt: skip
    _ = [next(consumer) for _ in range(RECORDS)]
    time.sleep(0.5)
    consumer.commit()
    consumer.close()


def _aiokafka(address: str) -> None:
    async def use() -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
        await producer.start()
        for number in range(RECORDS):
            await producer.send_and_wait(TOPIC, b"record-%d" % number)
        await producer.stop()
        consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=address, group_id=GROUP, auto_offset_reset="earliest",
                                    heartbeat_interval_ms=200)  # fmt: skip
        await consumer.start()
        for _ in range(RECORDS):
            await consumer.getone()
        await asyncio.sleep(0.5)
        await consumer.commit()
        await consumer.stop()

    asyncio.run(use())


def _confluent_kafka(protocol: Mapping[str, Any], address: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"record-%d" % number)
    producer.flush(10)
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "auto.offset.reset": "earliest", **protocol})
    consumer.subscribe([TOPIC])
    left, until = RECORDS, time.monotonic() + 20
    while left and time.monotonic() < until:
        left -= consumer.poll(0.2) is not None
    time.sleep(0.5)
    consumer.commit(asynchronous=False)
    consumer.close()


CLIENTS: Mapping[str, Callable[[str], None]] = {
    "aiokafka": _aiokafka,
    "confluent-kafka": partial(_confluent_kafka, {"heartbeat.interval.ms": 200}),
    KIP_848: partial(_confluent_kafka, {"group.protocol": "consumer"}),
    "kafka-python": _kafka_python,
}


def recorded(client: str) -> list[bytes]:
    """The frames of a client, in the order of their arrival."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        port = server.server_address[1]
        broker = RecordingBroker(port, OF_4_0 if client == KIP_848 else KAFKA_3_4)
        server.broker = broker  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        CLIENTS[client](f"127.0.0.1:{port}")
        server.shutdown()
    return broker.frames


def _few(frames: list[bytes]) -> Iterator[bytes]:
    counts: dict[bytes, int] = {}
    for frame in dict.fromkeys(frames):
        kind = frame[:4]  # API key and version
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= MOST:
            yield frame


@click.command()
@click.argument("clients", nargs=-1, type=click.Choice(list(CLIENTS)))
def main(clients: tuple[str, ...]) -> None:
    """Record the named clients, or all."""
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for client in clients or CLIENTS:
        frames = list(_few(recorded(client)))
        known = {name: kept for name, kept in known.items() if name.rpartition(" ")[0] != client}
        known[f"{client} {version(client.partition(' ')[0])}"] = [frame.hex() for frame in frames]
        click.echo(f"{client}: {len(frames)} frames")
    FILE.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
