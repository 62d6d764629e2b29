"""Values within messages: partitions, assignments, replicas."""

import re
from collections.abc import Iterator, Mapping

Names = tuple[str, ...]
Assignment = Mapping[str, Names | Mapping[str, tuple[int, ...]]]
"""Member -> partitions (``topic-partition``), or member -> topic id -> numbers, as the KIP-848 coordinator writes."""

WIDEST = 10_000
"""Partitions of a range at most."""
_PYTHON = re.compile(r"topic=u?'([^']*)',\s*partition=(\d+)")
_PAIR = re.compile(r"\[?([\w.{}*-]+),\s*(\d+)\]?")
_SPACED = re.compile(r"(?<![\w.*-])([\w.*-]+) \[+(\d+)\]")
_GO_MAP = re.compile(r"(?<![\w.*-])([\w.*-]+):\[([^\]]*)\]")


def partitions(text: str) -> Names:
    """Partitions as ``topic-number``, of any notation of a client or broker; empty for an empty list.

    An assignment epoch (``topic-0@2``; brokers since 4.3, KIP-1251) is left out.
    """
    text = re.sub(r"\n\s*", "", text.strip())
    if "partition=" in text:
        return tuple(f"{topic}-{number}" for topic, number in _PYTHON.findall(text))
    if text.startswith("map["):
        return tuple(f"{topic}-{number}" for topic, numbers in _GO_MAP.findall(text[4:]) for number in numbers.split())
    spaced = _SPACED.findall(text)
    if spaced:
        return tuple(f"{topic}-{number}" for topic, number in spaced)
    inner = re.sub(r"^(?:Set|List|HashSet|ArrayBuffer|frozenset|set|Vector)?\(?[\[{(]*", "", text)
    inner = inner.removesuffix(".").rstrip("]})")
    if re.fullmatch(r"\[?[\w.*{}-]+,\d+\]?(?:,\s?\[?[\w.*{}-]+,\d+\]?)*", inner) and not re.search(
        r"-\d+,\s?[\w.]+-\d+$", inner
    ):
        return tuple(f"{topic}-{number}" for topic, number in _PAIR.findall(inner))
    inner = re.sub(r"(-\d+)@\d+(?=,|$)", r"\1", inner)
    return tuple(name for part in inner.split(",") if (name := part.strip().strip("[]{}()'\" ")))


def partitions_of_object(topics: Mapping[str, object]) -> Names:
    """Partitions of the object ``{topic: [number, ..], ..}`` of a JSON record."""
    return tuple(
        f"{topic}-{number}" for topic, listed in topics.items() if isinstance(listed, list) for number in listed
    )


def split(partition: str) -> tuple[str, int] | None:
    """Topic and number of ``topic-number`` or ``topic/number``; None if the name has another form."""
    match = re.fullmatch(r"(.+)[-/](\d{1,9})", partition)
    return (match[1], int(match[2])) if match else None


def expanded(names: Names) -> Iterator[str]:
    """Partitions one by one; a range ``topic-0..7`` is eight, and a range of more than ``WIDEST`` is none."""
    for name in names:
        match = re.fullmatch(r"(.+)-(\d{1,9})\.\.(\d{1,9})", name)
        if match:
            low, high = int(match[2]), int(match[3])
            yield from (f"{match[1]}-{number}" for number in range(low, high + 1 if high - low < WIDEST else low))
        else:
            yield name


_RANGE = re.compile(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*")
_TABLE_ROW = re.compile(r"^\s*[x│|]\s*([\w.-]+)\s*[x│|]\s*\{([\d,\s-]*)\}\s*[x│|]", re.MULTILINE)


def partitions_of_table(text: str) -> Names:
    """Partitions of the table that faust draws; a range of more than two numbers stays a range."""
    names: list[str] = []
    for topic, numbers in _TABLE_ROW.findall(text):
        for found in filter(None, map(_RANGE.fullmatch, numbers.split(","))):
            low, high = found[1], found[2] or found[1]
            if int(high) > int(low) + 1:
                names.append(f"{topic}-{low}..{high}")
            else:
                names.extend(f"{topic}-{number}" for number in range(int(low), int(high) + 1))
    return tuple(names)


_MEMBER = re.compile(r"(?:^|[{,]\s*)([^{}=\[\]]{1,400}?)=(?:Member|)Assignment(?:Impl)?\(")


def assignment(text: str) -> Assignment:
    """Member -> partitions of ``{m=Assignment(partitions=[..]), ..}``, or member -> topic id -> numbers (KIP-848)."""
    result: dict[str, Names | Mapping[str, tuple[int, ...]]] = {}
    starts = list(_MEMBER.finditer(text))
    for place, start in enumerate(starts, 1):
        body = text[start.end() : starts[place].start() if place < len(starts) else len(text)]
        member = start[1].strip()
        by_topic = re.search(r"partitions=\{(.*?)\}", body)
        if by_topic:
            result[member] = {
                topic: numbers(listed) for topic, listed in re.findall(r"([\w-]+)=\[([^\]]*)\]", by_topic[1])
            }
        else:
            listed = re.search(r"partitions=\[([^\]]*)\]?", body)
            result[member] = partitions(listed[1]) if listed else ()
    return result


_PROTOCOL = re.compile(r"JoinGroupRequestProtocol\(name='([^']*)'")


def assignors(text: str) -> Names:
    """Names of assignors of ``range, sticky`` or of the protocols of a JoinGroup."""
    return tuple(_PROTOCOL.findall(text) or filter(None, text.split(", ")))


_ID = re.compile(r"(?<!\d)-?\d{1,10}(?!\d)")


def numbers(text: str) -> tuple[int, ...]:
    """Broker ids of ``1,2`` or ``[1, 2]``."""
    return tuple(map(int, _ID.findall(text)))


_NODE = re.compile(r"(?:\bid:? ?|\bnode (?:coordinator-)?|:\d{1,5}/|^)(\d{1,10})(?: rack|\)|$)")


def broker_id(node: str) -> int | None:
    """The id of ``x:9092 (id: 2147483646 rack: null)``, ``node 1``, ``1``, ``x:9092/1`` or ``x:9092 id 1``; else None.

    A Java client gives the connection to a coordinator the id 2147483647 minus the broker's id.
    Source: Kafka 3.9 ``AbstractCoordinator``.
    """
    match = _NODE.search(node)
    if match is None:
        return None
    number = int(match[1])
    return 2**31 - 1 - number if number > 2**30 else number
