"""Requests and replies of real clients, drawn from the declarations of ``kemu.protocol.kafka_wire``."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import APIS, Api
from kemu.protocol.kafka_wire.batches import make_batch
from kemu.protocol.kafka_wire.declare import EACH, NUMBERS, WireField, WireMessage
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest
from kemu.protocol.messages.data import RecordBatch
from lab.fuzzed_cluster import NAMES

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
ERRORS = tuple(ErrorCode)
CHARACTERS = "abcxyz019-_. /:é\u20ac\U0001f600\x00\x1b\ufeff"


def every_version() -> Iterator[tuple[Api, int]]:
    """Every spoken API with each of its spoken versions."""
    for api in APIS.values():
        for version in range(api.lowest, api.highest + 1):
            yield api, version


def drawn_request(draws: Random, api: Api, version: int) -> WireRequest:
    """A request that this version can carry."""
    (message, *further), beside, records = _drawn(draws, api.request, version)
    client = draws.choice((None, text(draws)))
    return WireRequest(api.key, version, number(draws, "i"), client, message, beside, records, tuple(further))


def drawn_reply(draws: Random, api: Api, version: int) -> WireReply:
    """A reply that this version can carry."""
    (message, *further), beside, records = _drawn(draws, api.reply, version)
    return WireReply(number(draws, "i"), message, beside, records, tuple(further))


def number(draws: Random, kind: str) -> int:
    """A number of this format of ``struct``; often at an end of its range."""
    top = 1 << (BITS[kind] - 1)
    return draws.choice((0, -1, 1, -top, top - 1, draws.randrange(-top, top), draws.randrange(min(top, 1000))))


def text(draws: Random) -> str:
    """A short text, or a name that a served cluster knows; some characters have more than one byte."""
    if draws.random() < 0.4:
        return draws.choice(NAMES)
    return "".join(draws.choices(CHARACTERS, k=draws.choice((0, 1, 3, 12, 12, 130))))


def texts(draws: Random, most: int = 3) -> list[str]:
    """Different texts."""
    return list(dict.fromkeys(text(draws) for _ in range(draws.randrange(most + 1))))


def uuid(draws: Random) -> str:
    """The UUID of a topic, or none."""
    return "" if draws.random() < 0.1 else str(UUID(int=draws.getrandbits(128)))


def _drawn(draws: Random, message: WireMessage, version: int) -> tuple[list[Any], dict[str, Any], dict[Any, bytes]]:
    """Messages of one frame, the fields beside them, and their records."""
    drawing = _Drawing(draws, version)
    values = drawing.struct(message.fields)
    beside = {
        field.name: drawing.value(field) for field in message.fields if not field.is_ours and field.is_in(version)
    }
    each = [field for field in message.fields if field.type == EACH and field.is_in(version)]
    if not each:
        return [message.cls(**values)], beside, drawing.records
    messages = [message.cls(**values, **drawing.struct(each[0].parts)) for _ in range(draws.randrange(1, 4))]
    for part in each[0].parts:
        if not part.is_ours:
            beside[part.name] = tuple(drawing.value(part) for _ in messages)
    return messages, beside, drawing.records


class _Drawing:
    def __init__(self, draws: Random, version: int) -> None:
        self._draws = draws
        self._version = version
        self.records: dict[Any, bytes] = {}

    def struct(self, fields: Sequence[WireField]) -> dict[str, Any]:
        carried = [field for field in fields if field.is_ours and field.is_in(self._version)]
        values = {field.name: self.value(field) for field in carried if field.type not in ("batch", "records", EACH)}
        if any(field.type == "names_or_ids" for field in carried) and values["topics"] is not None:
            values["topic_ids"] = tuple(uuid(self._draws) for _ in range(self._draws.randrange(3)))
        return values

    def value(self, field: WireField) -> Any:
        draws = self._draws
        is_nullable = field.may_be_null(self._version) and field.type != "optional"
        if (field.tag is not None or is_nullable) and draws.random() < 0.25:
            return None
        if field.tag is not None:
            return field.cls(**self.struct(field.parts))
        if field.by:
            return tuple(self._rows(field))
        if field.is_array:
            return tuple(self._one(field) for _ in range(draws.randrange(4)))
        return self._one(field)

    def _rows(self, field: WireField) -> Iterator[Any]:
        draws, kinds = self._draws, {part.type for part in field.parts}
        by = field.by_in(self._version)
        topics = texts(draws) if by == field.by else dict.fromkeys(uuid(draws) for _ in range(draws.randrange(4)))
        for topic in topics:
            for partition in dict.fromkeys(number(draws, "i") for _ in range(draws.randrange(1, 4))):
                values = {**self.struct(field.parts), by: topic}
                if "partition" in values:
                    values["partition"] = partition
                if "batch" in kinds:
                    values |= self._batch(topic, partition)
                elif "records" in kinds:
                    values["batches"] = tuple(self._fetched() for _ in range(draws.randrange(3)))
                yield field.cls(**values)

    def _batch(self, topic: str, partition: int) -> dict[str, Any]:
        draws = self._draws
        count = draws.randrange(1, 5)
        producer = {
            "producer_id": number(draws, "q"), "producer_epoch": number(draws, "h"), "sequence": number(draws, "i"),
        }  # fmt: skip
        self.records[topic, partition] = make_batch(
            [(None, b"x")] * count, base_offset=0, timestamp_ms=5, leader_epoch=-1, **producer
        )
        return {"count": count, **producer}

    def _fetched(self) -> RecordBatch:
        return RecordBatch(
            base_offset=self._draws.randrange(1 << 40),
            count=self._draws.randrange(1, 5),
            append_time_ms=self._draws.randrange(1 << 40),
            leader_epoch=number(self._draws, "i"),
        )

    def _one(self, field: WireField) -> Any:
        draws = self._draws
        match field.type:
            case "struct":
                return field.cls(**self.struct(field.parts))
            case "boxed":
                return tuple(field.cls(**self.struct(field.parts)) for _ in range(draws.randrange(4)))
            case "uuid":
                return uuid(draws)
            case "optional":
                return text(draws) or "unnamed"
            case "names_or_ids":
                return tuple(texts(draws))
            case "error":
                return draws.choice(ERRORS)
            case "bool":
                return draws.random() < 0.5
            case "string":
                return text(draws)
            case "bytes":
                return draws.randbytes(draws.choice((0, 1, 30, 200)))
            case "address":
                return f"{text(draws) or 'b'}:{draws.randrange(65536)}" if draws.random() < 0.7 else ""
            case "names":
                names = tuple(texts(draws))
                return names if names or field.may_be_null(self._version) else None
            case "topic_partitions":
                return tuple((topic, number(draws, "i")) for topic in texts(draws) for _ in range(2))
            case "replicas":
                return tuple(
                    tuple(number(draws, "i") for _ in range(draws.randrange(4))) for _ in range(draws.randrange(4))
                )
        return number(draws, NUMBERS[field.type])
