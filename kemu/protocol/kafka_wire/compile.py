"""The generator of readers and writers of Kafka's binary messages: it writes their source from ``WireMessage``.

A generated function reads bytes straight into kemu's message, or writes the bytes of kemu's message. Each generated
line is about one field, so that the line of an error names the field. Only kemu's own declarations determine the
source; received data is never part of the source.

A reader never allocates memory for an announced number of bytes or items: a number above the remaining bytes is
refused.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.kafka_wire.batches import (
    batch_summary,
    emulated_batch,
    produced_batch,
    split_batches,
)
from kemu.protocol.kafka_wire.declare import EACH, NUMBERS, WireField, WireMessage
from kemu.protocol.kafka_wire.errors import WireError
from kemu.protocol.messages.data import ProduceBatch, RecordBatch
from kemu.protocol.names import OFFSETS_TOPIC, TopicPartition
from kemu.protocol.wire.compile import blank_of
from kemu.protocol.wire.schema import LAST, fields_of

MAX_STRING_BYTES = 32_767
"""The plain length of a string is an int16; the flexible form has the same limit, as in Kafka."""
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
"""Source: ``Topic.isInternal``."""

Beside = dict[str, Any]
"""Name -> value of each field that kemu's message lacks."""
Records = dict[TopicPartition, bytes]
"""Record batches of Produce and Fetch."""

Read = Callable[[bytes, int], tuple[Any, Beside, Records]]
"""(frame, place of the first byte) -> (kemu's message or a tuple of messages, fields beside it, record batches)."""
Write = Callable[[Any, bytearray, Mapping[str, Any], Mapping[TopicPartition, bytes]], None]
"""(kemu's message or a tuple of messages, bytes to extend, fields beside it, record batches)."""

_FROM_BATCH: Mapping[str, str] = {
    "count": "record_count", "producer_id": "producer_id", "producer_epoch": "producer_epoch", "sequence": "sequence",
}  # fmt: skip
"""Field of ``ProduceBatch`` -> field of the batch's header."""


class _Source:
    """Source under construction."""

    def __init__(self, message: WireMessage, version: int, head: str) -> None:
        self.title = f"{message.title} v{version}"
        self.version = version
        self.is_flexible = version >= message.flexible_since
        self.scope: dict[str, Any] = {**_HELPERS}
        self._lines = [head]
        self._fields = [""]
        self._depth = 1
        self._names = 0
        self._packed: list[tuple[str, str]] = []
        """Numbers that follow each other: the character of each format, and a variable or an expression."""
        self._packed_in = ""
        """The first field of these numbers."""
        self.path: list[str] = []
        self._later: list[tuple[str, str]] = []
        """Lines that need these numbers, and their fields."""

    def add(self, *lines: str) -> None:
        """Add lines about the present field, at the present depth."""
        self.flush()
        for line in lines:
            self._line(line, ".".join(self.path))

    def block(self, head: str, *lines: str) -> "_Block":
        """Add the head of a block; the lines that follow inside ``with`` belong to the block."""
        self.add(head)
        return _Block(self, lines)

    def number(self, kind: str, text: str) -> None:
        """Add a number of the bytes: a variable to read into, or an expression to write."""
        if not self._packed:
            self._packed_in = ".".join(self.path)
        self._packed.append((kind, text))

    def flush(self) -> None:
        """Add the line for the numbers that follow each other."""
        if self._packed:
            packed, self._packed = self._packed, []
            self._line_of(packed, self._packed_in)
        later, self._later = self._later, []
        for line, field in later:
            self._line(line, field)

    def _line_of(self, packed: Sequence[tuple[str, str]], field: str) -> None:
        raise NotImplementedError

    def _line(self, line: str, field: str) -> None:
        self._lines.append("    " * self._depth + line)
        self._fields.append(field)

    def new(self, name: str) -> str:
        """A variable with a name of its own."""
        self._names += 1
        return f"{name}_{self._names}"

    def known(self, name: str, value: Any) -> str:
        """A variable of the function's module with this value."""
        made = self.new(name)
        self.scope[made] = value
        return made

    def compiled(self, name: str) -> tuple[Any, Callable[[BaseException], WireError]]:
        """The function, and the function that makes the error of an exception inside it."""
        self.flush()
        exec(compile("\n".join(self._lines), f"<{self.title}>", "exec"), self.scope)
        function, fields, title = self.scope[name], self._fields, self.title

        def explained(error: BaseException) -> WireError:
            frame = error.__traceback__
            while frame is not None and frame.tb_frame.f_code is not function.__code__:
                frame = frame.tb_next
            field = fields[frame.tb_lineno - 1] if frame is not None else ""
            return WireError(f"{title}{'.' if field else ''}{field}: {_reason(error)}")

        return function, explained


class _Block:
    """The lines of a loop or of a condition."""

    def __init__(self, source: _Source, lines: Sequence[str]) -> None:
        self._source = source
        self._lines = lines

    def __enter__(self) -> None:
        self._source._depth += 1
        self._source.add(*self._lines)

    def __exit__(self, *_: object) -> None:
        self._source.flush()
        self._source._depth -= 1


def _reason(error: BaseException) -> str:
    match error:
        case WireError():
            return str(error)
        case UnicodeError():
            return f"not UTF-8: {error.reason}" if isinstance(error, UnicodeDecodeError) else "cannot be UTF-8"
        case KeyError():
            return f"{error.args[0]} is no known error code"
        case IndexError():
            return "the bytes end here"
        case struct.error() if "unpack" in str(error):
            return "the bytes end here"
    return str(error)


# --- readers -------------------------------------------------------------------------------------------------------


def compile_reader(message: WireMessage, version: int, *, ends_the_frame: bool) -> Read:
    """The reader of a message in this version.

    Args:
        ends_the_frame: whether bytes after the message are an error.

    Raises:
        WireError: (the reader) the bytes are truncated, followed by further bytes, or do not fit the types.
    """
    source = _Reading(message, version, "def read(data, at, beside, records):")
    source.add("end = len(data)")
    made = source.struct(message.fields, message.cls, {}, is_whole=True)
    if ends_the_frame:
        source.add("if at != end: raise WireError(f'{end - at} bytes follow the message')")
    source.add(f"return {made}")
    function, explained = source.compiled("read")

    def read(data: bytes, at: int) -> tuple[Any, Beside, Records]:
        beside: Beside = {}
        records: Records = {}
        try:
            return function(data, at, beside, records), beside, records
        except (ValueError, LookupError, struct.error) as error:
            raise explained(error) from None

    return read


class _Reading(_Source):
    def _line_of(self, packed: Sequence[tuple[str, str]], field: str) -> None:
        form = struct.Struct(">" + "".join(kind for kind, _ in packed))
        variables = [variable for _, variable in packed if variable]
        if variables:
            reads = self.known("numbers", form.unpack_from)
            self._line(f"{', '.join(variables)}, = {reads}(data, at)", field)
        self._line(f"at += {form.size}", field)
        if not variables:
            self._line("if at > end: raise WireError('the bytes end here')", field)

    def struct(
        self, fields: Sequence[WireField], cls: type | None, known: Mapping[str, str], *, is_whole: bool = False
    ) -> str:
        """Read a struct; return the variable of kemu's value. ``known``: fields that stand elsewhere in the bytes."""
        values = dict(known)
        carried = [field for field in fields if field.is_in(self.version)]
        items: tuple[str, ...] = ()
        for field in carried:
            if field.tag is not None:
                continue
            self.path.append(field.name)
            if field.type == EACH:
                items = self._each(field, values)
            elif field.is_ours:
                values.update(self._value(field, values))
            elif is_whole:
                (value,) = self._value(field, values).values()
                self.add(f"beside[{field.name!r}] = {value}")
            else:
                self._ignored(field)
            self.path.pop()
        self._tags([field for field in carried if field.tag is not None], values)
        if cls is None:
            return ""
        return self._made_of_each(cls, values, *items) if items else self._made(cls, values)

    def _each(self, field: WireField, values: dict[str, str]) -> tuple[str, ...]:
        """Read the array of messages; return the variable of the items, and the variables of an item's fields."""
        count, items = self._count(_PLAIN), self.new("items")
        parts = [part for part in field.parts if part.is_in(self.version)]
        self.add(f"if not {count}: raise WireError('is empty')", f"{items} = []")
        self.add(*[f"beside[{part.name!r}] = ()" for part in parts if not part.is_ours])
        inner: dict[str, str] = {}
        with self.block(f"for _ in range({count}):"):
            for part in parts:
                self.path.append(part.name)
                found = self._value(part, inner)
                if part.is_ours:
                    inner.update(found)
                else:
                    self.add(f"beside[{part.name!r}] += ({found[part.name]},)")
                self.path.pop()
            self._tags([], {})
            self.add(f"{items}.append(({', '.join(inner.values())},))")
        values.update(inner)
        return items, *inner.values()

    def _made_of_each(self, cls: type, values: Mapping[str, str], items: str, *variables: str) -> str:
        """Lines that make a message for each item."""
        messages = self.new("messages")
        self.add(f"{messages} = []")
        with self.block(f"for {', '.join(variables)}, in {items}:"):
            made = self._made(cls, values)
            self.add(f"{messages}.append({made})")
        return f"tuple({messages})"

    def _made(self, cls: type, values: Mapping[str, str]) -> str:
        """Lines that make kemu's value; see ``compile_decoder`` of kemu's codec."""
        made = self.new("made")
        self.add(f"{made} = {self.known('blank', blank_of(cls))}()")
        for field in fields_of(cls):
            value = values.get(field.name)
            self.add(f"{made}.{field.name} = {value or self.known('default', field.default)}")
        self.add(f"{made}.__class__ = {self.known('cls', cls)}")
        return made

    def _ignored(self, field: WireField) -> None:
        """Read a field of a row that kemu lacks."""
        if field.type in NUMBERS or field.type == "internal":
            self.number({"b": "x", "?": "x", "h": "2x", "i": "4x", "q": "8x"}[NUMBERS.get(field.type, "?")], "")
        elif field.type == "struct":
            count = self._count(field)
            with self.block(f"for _ in range({count} or 0):"):
                self.struct(field.parts, None, {})
        else:
            self._value(field, {})

    def _value(self, field: WireField, values: Mapping[str, str]) -> Mapping[str, str]:
        """Read a field; return the variables of kemu's fields that the field determines."""
        name, kind = self.new(field.name), field.type
        if field.by:
            self._rows(field, name)
        elif field.is_array and kind == "int32":
            self._numbers(field, name)
        elif field.is_array:
            self._array(field, name)
        elif kind in NUMBERS:
            self.number(NUMBERS[kind], name)
            if kind == "error":
                self._later.append((f"{name} = errors[{name}]", ".".join(self.path)))
        elif kind in ("string", "bytes"):
            self._data(field, name, is_text=kind == "string")
        elif kind == "uuid":
            self._uuid(name)
        elif kind == "optional":
            self._data(field, name, is_text=True)
            if field.may_be_null(self.version):
                self.add(f"{name} = {name} or ''")
        elif kind == "boxed":
            self._boxed(field, name)
        elif kind == "names_or_ids":
            return self._names_or_ids(field, name)
        elif kind == "address":
            port = self.new("port")
            self._data(field, name, is_text=True)
            self.number("i", port)
            self.add(f"if {name}: {name} = f'{{{name}}}:{{{port}}}'")
        elif kind == "names":
            self._array(field, name, is_struct=True)
            if not field.may_be_null(self.version):
                self.add(f"{name} = {name} or None")
        elif kind == "topic_partitions":
            self._pairs(field, name)
        elif kind == "replicas":
            self._replicas(field, name)
        elif kind == "batch":
            self._data(field, name, is_text=False)
            place = f"{values['topic']}, {values['partition']}"
            self.add(
                f"if ({place}) in records: raise WireError('two batches for one partition')",
                f"records[{place}] = {name}",
                f"{name} = produced_batch({name})",
            )
            return {ours: f"{name}.{theirs}" for ours, theirs in _FROM_BATCH.items()}
        else:
            assert kind == "records", f"{field.name}: {kind} has no reader"
            self._data(field, name, is_text=False)
            place = f"{values['topic']}, {values['partition']}"
            self.add(f"{name} = {name} or b''", f"records[{place}] = {name}", f"{name} = fetched({name})")
        return {field.name: name}

    def _length(self, kind: str) -> str:
        """Read a length; null is -1."""
        size = self.new("n")
        if self.is_flexible:
            self.add(f"{size} = data[at] - 1", "at += 1", f"if {size} > 126: {size}, at = long_length(data, at - 1)")
        else:
            self.number(kind, size)
            self.flush()
        return size

    def _data(self, field: WireField, name: str, *, is_text: bool) -> None:
        size = self._length("h" if is_text else "i")
        too_long = f" or {size} > {MAX_STRING_BYTES}" if is_text and self.is_flexible else ""
        lines = (
            f"to = at + {size}",
            f"if {size} < 0 or to > end{too_long}: raise wrong_length({size}, end - at)",
            f"{name} = data[at:to]{'.decode()' if is_text else ''}",
            "at = to",
        )
        if field.may_be_null(self.version) or field.type in ("batch", "records"):
            self.add(f"if {size} == -1: {name} = None")
            with self.block("else:", *lines):
                pass
        else:
            self.add(*lines)

    def _count(self, field: WireField, item_bytes: int = 1) -> str:
        """Read the number of items of an array; the variable is None for null."""
        count = self._length("i")
        refusal = f"if {count} < 0 or {count} * {item_bytes} > end - at: raise wrong_length({count}, end - at)"
        if field.may_be_null(self.version):
            self.add(f"if {count} == -1: {count} = None", f"el{refusal}")
        else:
            self.add(refusal)
        return count

    def _numbers(self, field: WireField, name: str) -> None:
        count = self._count(field, 4)
        assert not field.may_be_null(self.version), f"{field.name}: null has no reader"
        self.add(f"to = at + 4 * {count}", f"{name} = unpack(f'>{{{count}}}i', data[at:to])", "at = to")

    def _array(self, field: WireField, name: str, *, is_struct: bool = False) -> None:
        """Read an array of structs or of strings; ``is_struct``: each string is a struct of its own."""
        count, items = self._count(field), self.new("items")
        self.add(f"{items} = []")
        with self.block(f"for _ in range({count} or 0):"):
            if field.type == "struct":
                item = self.struct(field.parts, field.cls, {})
            else:
                item = self.new("item")
                self._data(_PLAIN, item, is_text=True)
                if is_struct:
                    self._tags([], {})
            self.add(f"{items}.append({item})")
        is_null = f" if {count} is not None else None" if field.may_be_null(self.version) else ""
        self.add(f"{name} = tuple({items}){is_null}")

    def _uuid(self, name: str) -> None:
        self.add(f"{name} = uuid_at(data, at)", "at += 16")

    def _boxed(self, field: WireField, name: str) -> None:
        box = self.new("box")
        inner = evolve(field, type="struct", is_array=True, null_since=LAST)
        if not field.may_be_null(self.version):
            self._array(inner, name)
            self._tags([], {})
            return
        self.number("b", box)
        self.add(f"{name} = None")
        with self.block(f"if {box} >= 0:"):
            self._array(inner, name)
            self._tags([], {})

    def _names_or_ids(self, field: WireField, name: str) -> Mapping[str, str]:
        count, names, ids = self._count(field), self.new("names"), self.new("ids")
        topic_id, item = self.new("topic_id"), self.new("item")
        self.add(f"{names} = []", f"{ids} = []")
        with self.block(f"for _ in range({count} or 0):"):
            self._uuid(topic_id)
            self._data(_NULLABLE, item, is_text=True)
            self._tags([], {})
            # Java's consumer of 4.1 sends an empty name beside an id; brokers heed a name only without an id
            self.add(f"({ids} if {topic_id} else {names}).append({topic_id} or {item} or '')")
        self.add(f"{name} = tuple({names}) if {count} is not None else None", f"{ids} = tuple({ids})")
        return {field.name: name, "topic_ids": ids}

    def _rows(self, field: WireField, name: str) -> None:
        """Read topics with rows each as one array of rows."""
        by = field.by_in(self.version)
        topics, rows, topic = self._count(field), self.new("rows"), self.new(by)
        self.add(f"{rows} = []")
        with self.block(f"for _ in range({topics}):"):
            if by == field.by:
                self._data(_PLAIN, topic, is_text=True)
            else:
                self._uuid(topic)
            count = self._count(_PLAIN)
            with self.block(f"for _ in range({count}):"):
                row = self.struct(field.parts, field.cls, {by: topic})
                self.add(f"{rows}.append({row})")
            self._tags([], {})
        self.add(f"{name} = tuple({rows})")

    def _pairs(self, field: WireField, name: str) -> None:
        topics, rows, topic, numbers = self._count(field), self.new("rows"), self.new("topic"), self.new("numbers")
        self.add(f"{rows} = []")
        with self.block(f"for _ in range({topics}):"):
            self._data(_PLAIN, topic, is_text=True)
            self._numbers(_PLAIN, numbers)
            self._tags([], {})
            self.add(f"{rows} += [({topic}, number) for number in {numbers}]")
        self.add(f"{name} = tuple({rows})")

    def _replicas(self, field: WireField, name: str) -> None:
        count, rows = self._count(field), self.new("rows")
        number, numbers = self.new("partition"), self.new("numbers")
        self.add(f"{rows} = {{}}")
        with self.block(f"for _ in range({count}):"):
            self.number("i", number)
            self._numbers(_PLAIN, numbers)
            self._tags([], {})
            self.add(f"{rows}[{number}] = {numbers}")
        self.add(f"{name} = in_order({rows}, {count})")

    def _tags(self, fields: Sequence[WireField], values: dict[str, str]) -> None:
        """Read the tagged fields of a struct. An unknown tag is ignored, as in Kafka."""
        if not self.is_flexible:
            assert not fields, "tagged fields need a flexible version"
            return
        self.path.append("tags")
        self.add("n = data[at]", "at += 1")
        if not fields:
            self.add("if n: at, _ = tags(data, at - 1)")
        else:
            tagged, after = self.new("tagged"), self.new("after")
            self.add(f"{tagged} = {{}}", f"if n: at, {tagged} = tags(data, at - 1)", f"{after} = at")
            for field in fields:
                values[field.name] = self._tagged(field, tagged)
            self.add(f"at = {after}")
        self.path.pop()

    def _tagged(self, field: WireField, tagged: str) -> str:
        name, until = self.new(field.name), self.new("until")
        self.add(f"{name} = None")
        with self.block(f"if {field.tag} in {tagged}:", f"at, {until} = {tagged}[{field.tag}]"):
            made = self.struct(field.parts, field.cls, {})
            self.add(f"if at != {until}: raise WireError('a tagged field of another length')", f"{name} = {made}")
        return name


# --- writers -------------------------------------------------------------------------------------------------------


def compile_writer(message: WireMessage, version: int) -> Write:
    """The writer of a message in this version.

    Raises:
        WireError: (the writer) a number or a string does not fit its type, a value may not be null in this version, or
            the batch of a partition is missing.
    """
    source = _Writing(message, version, "def write(m, out, beside, records):")
    source.add("pass")  # some requests have no field
    source.struct(message.fields, "m", is_whole=True)
    function, explained = source.compiled("write")

    def write(value: Any, out: bytearray, beside: Mapping[str, Any], records: Mapping[TopicPartition, bytes]) -> None:
        try:
            function(value, out, beside, records)
        except (ValueError, LookupError, struct.error) as error:
            raise explained(error) from None

    return write


class _Writing(_Source):
    def __init__(self, message: WireMessage, version: int, head: str) -> None:
        super().__init__(message, version, head)
        self._out = "out"

    def _line_of(self, packed: Sequence[tuple[str, str]], field: str) -> None:
        writes = self.known("numbers", struct.Struct(">" + "".join(kind for kind, _ in packed)).pack)
        self._line(f"{self._out} += {writes}({', '.join(value for _, value in packed)})", field)

    def struct(self, fields: Sequence[WireField], of: str, *, is_whole: bool = False) -> None:
        """Write the struct in the variable ``of``."""
        carried = [field for field in fields if field.is_in(self.version)]
        if any(field.type == EACH for field in carried):
            self.add(f"each = {of} if type({of}) is tuple else ({of},)", f"{of} = each[0]")
        for field in carried:
            if field.tag is not None:
                continue
            self.path.append(field.name)
            if field.type == EACH:
                self._each(field)
                self.path.pop()
                continue
            if field.is_ours:
                value = f"{of}.{field.name}"
            else:
                value = self._default(field, of)
                if is_whole:
                    value = f"beside.get({field.name!r}, {value})"
            self._value(field, value, of)
            self.path.pop()
        self._tags([field for field in carried if field.tag is not None], of)

    def _each(self, field: WireField) -> None:
        """Write the array of messages. Fields that kemu's message lacks have a value for each message."""
        with self._items("enumerate(each)", "len(each)", "place, item"):
            for part in field.parts:
                if part.is_in(self.version):
                    self.path.append(part.name)
                    value = f"item.{part.name}" if part.is_ours else f"beside[{part.name!r}][place]"
                    self._value(part, value, "item")
                    self.path.pop()
            self._tags([], "")

    def _default(self, field: WireField, of: str) -> str:
        if field.type == "internal":
            return f"{of}.topic in internal_topics"
        if field.default and not field.default.lstrip("-").isdigit():
            return f"{of}.{field.default}"
        if field.default:
            return field.default
        if field.type == "struct":
            return "()"
        if field.may_be_null(self.version):
            return "None"
        return {"string": "''", "bool": "False"}.get(field.type, "0")

    def _value(self, field: WireField, value: str, of: str) -> None:
        kind = field.type
        if field.by:
            self._rows(field, value)
        elif field.is_array and kind == "int32":
            self._numbers(value)
        elif field.is_array:
            self._array(field, value)
        elif kind in NUMBERS or kind == "internal":
            self.number(NUMBERS.get(kind, "?"), value)
        elif kind in ("string", "bytes"):
            self._data(field, value, is_text=kind == "string")
        elif kind == "uuid":
            self.add(f"{self._out} += uuid_of({value})")
        elif kind == "optional":
            self._data(field, f"{value} or None" if field.may_be_null(self.version) else value, is_text=True)
        elif kind == "boxed":
            self._boxed(field, value)
        elif kind == "names_or_ids":
            self._names_or_ids(field, value, of)
        elif kind == "address":
            host, port = self.new("host"), self.new("port")
            self.add(f"{host}, {port} = address_of({value})")
            self._data(_PLAIN, host, is_text=True)
            self.number("i", port)
        elif kind == "names":
            self._array(field, value if field.may_be_null(self.version) else f"{value} or ()", is_struct=True)
        elif kind == "topic_partitions":
            self._pairs(value)
        elif kind == "replicas":
            with self._items(f"enumerate({value})", f"len({value})", "number, numbers"):
                self.number("i", "number")
                self._numbers("numbers")
                self._tags([], "")
        else:
            assert kind in ("batch", "records"), f"{field.name}: {kind} has no writer"
            data = self.new("data")
            self.add(f"{data} = {'given' if kind == 'batch' else 'emulated'}({of}, records)")
            self._data(_PLAIN, data, is_text=False)

    def _length(self, kind: str, size: str) -> None:
        if self.is_flexible:
            length = self.new("n")
            self.add(
                f"{length} = {size} + 1",
                f"if {length} < 128: {self._out}.append({length})",
                f"else: add_length({self._out}, {length})",
            )
        else:
            self.number(kind, size)

    def _null(self, kind: str) -> str:
        """The line that writes null."""
        null = b"\0" if self.is_flexible else struct.pack(f">{kind}", -1)
        return f"{self._out} += {null!r}"

    def _data(self, field: WireField, value: str, *, is_text: bool) -> None:
        kind = "h" if is_text else "i"
        is_nullable = field.null_since != LAST
        if is_nullable:
            held = self.new(field.name)
            self.add(f"{held} = {value}")
            value = held
            self.add(f"if {held} is None: {self._null(kind) if field.may_be_null(self.version) else _NOT_NULL}")
        if is_nullable:
            with self.block("else:"):
                self._data_of(value, kind)
        else:
            self._data_of(value, kind)

    def _data_of(self, value: str, kind: str) -> None:
        data = self.new("data")
        is_text = kind == "h"
        self.add(f"{data} = {value}{'.encode()' if is_text else ''}")
        if is_text:
            self.add(f"if len({data}) > {MAX_STRING_BYTES}: raise WireError(f'{{len({data})}} bytes are too long')")
        self._length(kind, f"len({data})")
        self.add(f"{self._out} += {data}")

    def _numbers(self, value: str) -> None:
        self._length("i", f"len({value})")
        self.add(f"{self._out} += pack(f'>{{len({value})}}i', *{value})")

    def _items(self, iterated: str, count: str, item: str) -> _Block:
        self._length("i", count)
        return self.block(f"for {item} in {iterated}:")

    def _array(self, field: WireField, value: str, *, is_struct: bool = False) -> None:
        held = self.new(field.name)
        self.add(f"{held} = {value}")
        if field.null_since == LAST or (is_struct and not field.may_be_null(self.version)):
            self._array_of(field, held, is_struct=is_struct)
            return
        self.add(f"if {held} is None: {self._null('i') if field.may_be_null(self.version) else _NOT_NULL}")
        with self.block("else:"):
            self._array_of(field, held, is_struct=is_struct)

    def _array_of(self, field: WireField, held: str, *, is_struct: bool) -> None:
        item = self.new("item")
        with self._items(held, f"len({held})", item):
            if field.type == "struct":
                self.struct(field.parts, item)
            else:
                self._data(_PLAIN, item, is_text=True)
                if is_struct:
                    self._tags([], "")

    def _boxed(self, field: WireField, value: str) -> None:
        inner, held = evolve(field, type="struct", is_array=True, null_since=LAST), self.new(field.name)
        if not field.may_be_null(self.version):
            self._array(inner, value)
            self._tags([], "")
            return
        self.add(f"{held} = {value}", f"{self._out}.append(255 if {held} is None else 1)")
        with self.block(f"if {held} is not None:"):
            self._array(inner, held)
            self._tags([], "")

    def _names_or_ids(self, field: WireField, value: str, of: str) -> None:
        names, topic_id, item = self.new("names"), self.new("topic_id"), self.new("item")
        null = self._null("h")
        self.add(f"{names} = {value}", f"if {names} is None: {self._null('i')}")
        with self.block("else:"):
            rows = f"[*(('', name) for name in {names}), *((each, None) for each in {of}.topic_ids)]"
            self.add(f"{names} = {rows}")
            with self._items(names, f"len({names})", f"{topic_id}, {item}"):
                self.add(f"{self._out} += uuid_of({topic_id})", f"if {item} is None: {null}")
                with self.block("else:"):
                    self._data_of(item, "h")
                self._tags([], "")

    def _rows(self, field: WireField, value: str) -> None:
        """Write rows as topics in the order of their first rows, with their rows each."""
        by = field.by_in(self.version)
        groups, topic, rows, row = self.new("groups"), self.new(by), self.new("rows"), self.new("row")
        self.add(f"{groups} = {{}}", f"for {row} in {value}: {groups}.setdefault({row}.{by}, []).append({row})")
        with self._items(f"{groups}.items()", f"len({groups})", f"{topic}, {rows}"):
            if by == field.by:
                self._data(_PLAIN, topic, is_text=True)
            else:
                self.add(f"{self._out} += uuid_of({topic})")
            with self._items(rows, f"len({rows})", row):
                self.struct(field.parts, row)
            self._tags([], "")

    def _pairs(self, value: str) -> None:
        groups, topic, numbers = self.new("groups"), self.new("topic"), self.new("numbers")
        self.add(f"{groups} = {{}}", f"for name, number in {value}: {groups}.setdefault(name, []).append(number)")
        with self._items(f"{groups}.items()", f"len({groups})", f"{topic}, {numbers}"):
            self._data(_PLAIN, topic, is_text=True)
            self._numbers(numbers)
            self._tags([], "")

    def _tags(self, fields: Sequence[WireField], of: str) -> None:
        if not self.is_flexible:
            return
        if not fields:
            self.add(f"{self._out}.append(0)")
            return
        (field,) = fields  # the only tagged field that kemu writes is the diverging epoch of a fetch
        held = self.new(field.name)
        self.add(f"{held} = {of}.{field.name}", f"if {held} is None: {self._out}.append(0)")
        with self.block("else:", "body = bytearray()"):
            self._out = "body"
            self.struct(field.parts, held)
            self.flush()
            self._out = "out"
            self.add(f"out += bytes((1, {field.tag}))", "add_length(out, len(body))", "out += body")


# --- helpers of generated functions --------------------------------------------------------------------------------

_PLAIN = WireField("item", "string", True, False, 0, LAST, LAST, None, "", None, "", LAST, ())
"""A string that may not be null, such as an item of an array."""
_NULLABLE = evolve(_PLAIN, null_since=0)
_NOT_NULL = "raise WireError('may not be null in this version')"
_VARINT_BYTES = 5
_UUID_BYTES = 16
_NO_UUID = bytes(_UUID_BYTES)


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; return its value and the place behind it."""
    value = 0
    for index in range(_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value <= 0xFFFF_FFFF:
            return value, at + index + 1
    raise WireError("a varint of more than 32 bits")


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    """Read a compact length; null is -1."""
    value, at = _unsigned(data, at)
    return value - 1, at


def add_length(out: bytearray, value: int) -> None:
    """Add an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def tags_at(data: bytes, at: int) -> tuple[int, dict[int, tuple[int, int]]]:
    """The place behind the tagged fields that begin here, and the first and the last place of each field."""
    count, at = _unsigned(data, at)
    found: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, at = _unsigned(data, at)
        size, at = _unsigned(data, at)
        if size > len(data) - at:
            raise _wrong_length(size, len(data) - at)
        if tag in found:
            raise WireError(f"the tag {tag} occurs twice")
        found[tag] = at, at + size
        at += size
    return at, found


def _uuid_at(data: bytes, at: int) -> str:
    value = data[at : at + _UUID_BYTES]
    if len(value) < _UUID_BYTES:
        raise WireError("the bytes end here")
    digits = value.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts) if value != _NO_UUID else ""


def _uuid_of(text: str) -> bytes:
    value = bytes.fromhex(text.replace("-", "")) if text else _NO_UUID
    if len(value) != _UUID_BYTES:
        raise WireError(f"{text!r:.80} is no UUID")
    return value


def _wrong_length(size: int, left: int) -> WireError:
    if size == -1:
        return WireError("may not be null")
    return WireError(f"the length {size} is negative" if size < 0 else f"the length {size}, but {left} bytes are left")


def _in_order(rows: dict[int, tuple[int, ...]], count: int) -> tuple[tuple[int, ...], ...]:
    if sorted(rows) != list(range(count)):
        raise WireError("assignments must name the partitions 0, 1, 2 ... once each")
    return tuple(rows[number] for number in range(count))


def _address_of(value: str) -> tuple[str, int]:
    host, colon, port = value.rpartition(":")
    if not value:
        return "", -1
    if not colon or not port.isdecimal() or not port.isascii():
        raise WireError(f"{value!r:.80} is not HOST:PORT")
    return host, int(port)


def _given(row: ProduceBatch, records: Mapping[TopicPartition, bytes]) -> bytes:
    batch = records.get((row.topic, row.partition))
    if batch is None:
        raise WireError(f"no batch is given for {row.topic}-{row.partition}")
    return batch


def _emulated(row: Any, records: Mapping[TopicPartition, bytes]) -> bytes:
    """The records of a fetched partition: those that are given, or made for batches without a payload."""
    given = records.get((row.topic, row.partition))
    if given is not None:
        return given
    made = [
        emulated_batch(row.topic, row.partition, each.base_offset, each.count, each.append_time_ms, each.leader_epoch)
        for each in row.batches
    ]
    return b"".join(made)


def _fetched(records: bytes) -> tuple[RecordBatch, ...]:
    found = [batch_summary(batch) for batch in split_batches(records, may_be_cut=True)]
    return tuple(
        RecordBatch(
            base_offset=each.base_offset,
            count=each.last_offset_delta + 1,
            append_time_ms=each.max_timestamp_ms,
            leader_epoch=each.leader_epoch,
        )
        for each in found
    )


_HELPERS: Mapping[str, Any] = {
    "WireError": WireError,
    "errors": ErrorCode._value2member_map_,
    "unpack": struct.unpack,
    "pack": struct.pack,
    "tags": tags_at,
    "long_length": _long_length,
    "add_length": add_length,
    "uuid_at": _uuid_at,
    "uuid_of": _uuid_of,
    "wrong_length": _wrong_length,
    "in_order": _in_order,
    "address_of": _address_of,
    "given": _given,
    "emulated": _emulated,
    "fetched": _fetched,
    "produced_batch": produced_batch,
    "internal_topics": INTERNAL_TOPICS,
}
