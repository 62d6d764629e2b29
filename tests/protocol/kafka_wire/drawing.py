"""Requests and replies that a spoken version can carry, drawn from the declarations of ``kemu.protocol.kafka_wire``."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import APIS, Api
from kemu.protocol.kafka_wire.batches import make_batch
from kemu.protocol.kafka_wire.declare import NUMBERS, WireField, WireMessage
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest
from kemu.protocol.messages.data import ProduceBatch, RecordBatch
from tests.strategies import TEXT

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

Draw = Callable[[st.SearchStrategy[Any]], Any]


def every_version() -> Iterator[tuple[Api, int]]:
    """Every spoken API with each of its spoken versions."""
    for api in APIS.values():
        for version in range(api.lowest, api.highest + 1):
            yield api, version


@st.composite
def requests(draw: Draw, api: Api, version: int = -1) -> WireRequest:
    """Requests of an API in this version, or (-1) in any spoken version."""
    version = version if version >= 0 else draw(st.integers(api.lowest, api.highest))
    message, beside, records = drawn(draw, api.request, version)
    client = draw(st.none() | TEXT)
    return WireRequest(api.key, version, draw(_number("i")), client, message, beside, records)


@st.composite
def replies(draw: Draw, api: Api, version: int = -1) -> tuple[int, WireReply]:
    """A version (-1: any spoken version) of an API, and replies in it."""
    version = version if version >= 0 else draw(st.integers(api.lowest, api.highest))
    message, beside, records = drawn(draw, api.reply, version)
    return version, WireReply(draw(_number("i")), message, beside, records)


def drawn(draw: Draw, message: WireMessage, version: int) -> tuple[Any, dict[str, Any], dict[Any, bytes]]:
    """A message in this version, the fields beside it, and the record batches."""
    records: dict[Any, bytes] = {}
    drawing = _Drawing(draw, version, records)
    values = drawing.struct(message.fields)
    beside = {
        field.name: drawing.value(field) for field in message.fields if not field.is_ours and field.is_in(version)
    }
    return message.cls(**values), beside, records


def _number(kind: str) -> st.SearchStrategy[int]:
    top = 1 << (BITS[kind] - 1)
    return st.sampled_from((0, -1, 1, -top, top - 1)) | st.integers(-top, top - 1)


class _Drawing:
    def __init__(self, draw: Draw, version: int, records: dict[Any, bytes]) -> None:
        self._draw = draw
        self._version = version
        self._records = records

    def struct(self, fields: tuple[WireField, ...]) -> dict[str, Any]:
        carried = [field for field in fields if field.is_ours and field.is_in(self._version)]
        return {field.name: self.value(field) for field in carried if field.type not in ("batch", "records")}

    def value(self, field: WireField) -> Any:
        if (field.tag is not None or field.may_be_null(self._version)) and self._draw(st.integers(0, 3)) == 0:
            return None
        if field.tag is not None:
            return field.cls(**self.struct(field.parts))  # type: ignore[misc]
        if field.by:
            return tuple(self._rows(field))
        if field.is_array:
            return tuple(self._one(field) for _ in range(self._draw(st.integers(0, 3))))
        return self._one(field)

    def _rows(self, field: WireField) -> Iterator[Any]:
        for topic in self._draw(st.lists(TEXT, max_size=3, unique=True)):
            for number in self._draw(st.lists(_number("i"), min_size=1, max_size=3, unique=True)):
                values = {**self.struct(field.parts), field.by: topic}
                if "partition" in values:
                    values["partition"] = number
                kinds = {part.type for part in field.parts}
                if "batch" in kinds:
                    values |= self._batch(topic, number)
                elif "records" in kinds:
                    values["batches"] = tuple(self._fetched() for _ in range(self._draw(st.integers(0, 2))))
                assert field.cls is not None
                yield field.cls(**values)

    def _batch(self, topic: str, partition: int) -> dict[str, Any]:
        count = self._draw(st.integers(1, 4))
        producer = {
            "producer_id": self._draw(_number("q")),
            "producer_epoch": self._draw(_number("h")),
            "sequence": self._draw(_number("i")),
        }
        made = make_batch([(None, b"x")] * count, base_offset=0, timestamp_ms=5, **producer)
        self._records[topic, partition] = made
        assert ProduceBatch(topic=topic, partition=partition, count=count, **producer)
        return {"count": count, **producer}

    def _fetched(self) -> RecordBatch:
        return RecordBatch(
            base_offset=self._draw(st.integers(0, 1 << 40)),
            count=self._draw(st.integers(1, 4)),
            append_time_ms=self._draw(st.integers(0, 1 << 40)),
            leader_epoch=self._draw(_number("i")),
        )

    def _one(self, field: WireField) -> Any:
        draw, kind = self._draw, field.type
        if kind == "struct":
            assert field.cls is not None
            return field.cls(**self.struct(field.parts))
        if kind == "error":
            return draw(st.sampled_from(list(ErrorCode)))
        if kind == "bool":
            return draw(st.booleans())
        if kind in NUMBERS:
            return draw(_number(NUMBERS[kind]))
        if kind == "string":
            return draw(TEXT)
        if kind == "bytes":
            return draw(st.binary(max_size=200))
        if kind == "address":
            return f"{draw(TEXT) or 'b'}:{draw(st.integers(0, 65535))}" if draw(st.booleans()) else ""
        if kind == "names":
            names = tuple(draw(st.lists(TEXT, max_size=3)))
            return names if names or field.may_be_null(self._version) else None
        if kind == "topic_partitions":
            topics = draw(st.lists(TEXT, max_size=3, unique=True))
            return tuple((topic, draw(_number("i"))) for topic in topics for _ in range(2))
        assert kind == "replicas", kind
        return tuple(tuple(draw(st.lists(_number("i"), max_size=3))) for _ in range(draw(st.integers(0, 3))))
