"""Read the output of ``kafka-topics --describe`` and ``kafka-consumer-groups --describe``.

The layouts changed from Kafka 1 to 4: tabs or spaces, a colon with or without a space, new columns (GROUP,
GROUP-INSTANCE-ID, LEADER-EPOCH, TopicId, Elr), new formats ("t(0,1), u(2)" became "t:0,1;u:2"). So the labels in a
topic's line identify the values, and the header of a table identifies the values of a group's row.

Source: TopicCommand and ConsumerGroupCommand of Kafka 1.1 to 4.1; KIP-175, KIP-1099.
"""

import re
from collections.abc import Iterable, Sequence

from attrs import Factory, define

from kemu.protocol.frozen import frozen

NONE = "-"
"""The text that the tools print for a missing value."""

STATES = (
    "Stable",
    "Empty",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
    "AwaitingSync",
    "Assigning",
    "Reconciling",
    "Unknown",
)

_LABELS = (
    "Topic|TopicId|PartitionCount|ReplicationFactor|Configs|Partition|Leader|Replicas|Isr|Adding Replicas|"
    "Removing Replicas|Elr|LastKnownElr|Offline|MarkedForDeletion"
)
_LABEL = re.compile(rf"(?<!\S)({_LABELS}):")
_BROKER_LABELS = ("Leader", "Replicas", "Isr", "Adding Replicas", "Removing Replicas", "Elr", "LastKnownElr", "Offline")
_ABOUT_GROUP = re.compile(r"[Cc]onsumer group '(.+)' (has no active members|is rebalancing|does not exist)\.")
_OWN_NOTE = "Note: This will "
_COORDINATOR = re.compile(r"\s+(\(-?\d+\))")
_ASSIGNED = re.compile(r"(\S+?)(?:\((\d+(?:,\d+)*)\)|:(\d+(?:,\d+)*))")


@frozen
class Line:
    """One line of a file: the number of the line (from 1), and its text."""

    number: int
    text: str


@define
class TopicFacts:
    """The known facts about a topic; ``partitions`` is None if only rows of groups name the topic."""

    name: str
    partitions: int | None = None
    highest: int = -1
    """The highest partition number of the topic in any file."""
    configs: str = ""


@frozen
class OffsetRow:
    """A partition in the output about a group; offsets and lag are None if the tool printed ``-``."""

    topic: str
    partition: int
    end: int | None
    lag: int | None
    consumer: str | None


@frozen
class MemberRow:
    """A member in the output about a group; ``assigned`` is empty without --verbose."""

    consumer: str
    instance: str | None
    assigned: tuple[tuple[str, int], ...]


@define
class GroupFacts:
    """The facts about a group, from the last table that contains the group. ``name``: "" if no column has the name."""

    name: str
    offsets: dict[tuple[str, int], OffsetRow] = Factory(dict)
    idle: dict[str, None] = Factory(dict)
    """Consumers without a partition in the offsets table."""
    first_end: dict[tuple[str, int], int] = Factory(dict)
    """Log end offset of each partition in the first table with this partition."""
    offset_tables: int = 0
    members: dict[str, MemberRow] | None = None
    member_count: int | None = None
    state: str | None = None
    strategy: str | None = None


@define
class Found:
    """All facts from the files so far."""

    topics: dict[str, TopicFacts] = Factory(dict)
    groups: dict[str, GroupFacts] = Factory(dict)
    brokers: dict[int, None] = Factory(dict)
    remarks: list[str] = Factory(list)
    """Sentences that the tools printed about groups."""

    def topic(self, name: str) -> TopicFacts:
        """Return the facts about the topic of this name; add an empty object for a new topic."""
        return self.topics.setdefault(name, TopicFacts(name))

    def group(self, name: str) -> GroupFacts:
        """Return the facts about the group of this name; add an empty object for a new group."""
        return self.groups.setdefault(name, GroupFacts(name))


@frozen
class _Header:
    """The columns of a table, and their positions in the header line."""

    kind: str
    columns: tuple[str, ...]
    starts: tuple[int, ...]


class OutputReader:
    """Reads the lines of one file into ``found``.

    ``understood`` is the number of understood lines; ``rest`` contains the other lines.
    """

    def __init__(self, found: Found) -> None:
        self.understood = 0
        self.rest: list[Line] = []
        self._found = found
        self._header: _Header | None = None
        self._fresh: set[str] = set()
        """Groups with a row in the current table."""

    def read(self, lines: Iterable[Line]) -> None:
        """Read lines; add each line that is neither blank nor understood to ``rest``."""
        for line in lines:
            text = line.text.rstrip()
            if not text.strip():
                continue
            if self._read_line(text):
                self.understood += 1
            else:
                self.rest.append(line)

    def _read_line(self, text: str) -> bool:
        if text.lstrip().startswith("Topic:"):
            return self._read_topic(text)
        header = _read_header(text)
        if header is not None:
            self._header, self._fresh = header, set()
            return True
        about = _ABOUT_GROUP.search(text)
        if about is not None:
            self._found.remarks.append(text.strip())
            if about[2] == "has no active members":
                self._found.group(about[1]).state = "Empty"
            return True
        if text.startswith(_OWN_NOTE):
            return True
        return self._header is not None and self._read_row(self._header, text)

    def _read_topic(self, text: str) -> bool:
        labels = list(_LABEL.finditer(text))
        ends = [label.start() for label in labels[1:]] + [len(text)]
        values = {label[1]: text[label.end() : end].strip() for label, end in zip(labels, ends, strict=True)}
        number = values.get("PartitionCount") or values.get("Partition") or ""
        if not values.get("Topic") or not number.isdigit():
            return False
        topic = self._found.topic(values["Topic"])
        if "PartitionCount" in values:
            topic.partitions = int(number)
            topic.configs = values.get("Configs", "")
        else:
            topic.highest = max(topic.highest, int(number))
        for label in _BROKER_LABELS:
            for broker in values.get(label, "").split(","):
                if broker.strip().isdigit():
                    self._found.brokers[int(broker)] = None
        return True

    def _read_row(self, header: _Header, text: str) -> bool:
        cells = _cells(header, text)
        if cells is None:
            return False
        group = cells.get("GROUP", "")
        if "GROUP" in cells and group in ("", NONE):
            return False
        first = group not in self._fresh
        read = {"offsets": self._read_offsets, "members": self._read_member, "state": self._read_state}[header.kind]
        if not read(group, cells, first):
            return False
        self._fresh.add(group)
        return True

    def _read_offsets(self, name: str, cells: dict[str, str], first: bool) -> bool:
        partition, end, lag = cells["PARTITION"], cells.get("LOG-END-OFFSET", NONE), cells["LAG"]
        if not all(_is_count(cell) for cell in (partition, end, lag, cells.get("CURRENT-OFFSET", NONE))):
            return False
        group = self._found.group(name)
        if first:
            group.offsets, group.idle = {}, {}
            group.offset_tables += 1
        consumer = _given(cells.get("CONSUMER-ID", cells.get("OWNER", NONE)))
        if partition == NONE:
            if consumer is None:
                return False
            group.idle[consumer] = None
            return True
        topic = self._found.topic(cells["TOPIC"])
        topic.highest = max(topic.highest, int(partition))
        row = OffsetRow(topic.name, int(partition), _count(end), _count(lag), consumer)
        group.offsets[row.topic, row.partition] = row
        if row.end is not None:
            group.first_end.setdefault((row.topic, row.partition), row.end)
        return True

    def _read_member(self, name: str, cells: dict[str, str], first: bool) -> bool:
        consumer = cells["CONSUMER-ID"]
        if consumer in ("", NONE) or not _is_count(cells.get("#PARTITIONS", NONE)):
            return False
        group = self._found.group(name)
        if first or group.members is None:
            group.members = {}
        assigned = next((cells[column] for column in _ASSIGNMENT_COLUMNS if column in cells), NONE)
        partitions = _assigned(assigned)
        for topic_name, partition in partitions:
            topic = self._found.topic(topic_name)
            topic.highest = max(topic.highest, partition)
        group.members[consumer] = MemberRow(consumer, _given(cells.get("GROUP-INSTANCE-ID", NONE)), partitions)
        return True

    def _read_state(self, name: str, cells: dict[str, str], first: bool) -> bool:
        if cells["STATE"] not in STATES or not cells["#MEMBERS"].isdigit():
            return False
        group = self._found.group(name)
        group.state, group.member_count = cells["STATE"], int(cells["#MEMBERS"])
        group.strategy = _given(cells.get("ASSIGNMENT-STRATEGY", NONE))
        coordinator = _COORDINATOR.search(cells.get("COORDINATOR (ID)", ""))
        if coordinator is not None and coordinator[1].strip("()").isdigit():
            self._found.brokers[int(coordinator[1].strip("()"))] = None
        return True


_ASSIGNMENT_COLUMNS = ("ASSIGNMENT", "ASSIGNMENT(S)", "CURRENT-ASSIGNMENT")
_KINDS: Sequence[tuple[str, frozenset[str]]] = (
    ("offsets", frozenset(("TOPIC", "PARTITION", "LAG"))),
    ("members", frozenset(("CONSUMER-ID", "#PARTITIONS"))),
    ("state", frozenset(("STATE", "#MEMBERS"))),
)


def _read_header(text: str) -> _Header | None:
    found = list(re.finditer(r"COORDINATOR \(ID\)|\S+", text))
    columns = tuple(match[0] for match in found)
    for kind, needed in _KINDS:
        if needed <= set(columns) and len(set(columns)) == len(columns):
            return _Header(kind, columns, tuple(match.start() for match in found))
    return None


def _cells(header: _Header, text: str) -> dict[str, str] | None:
    """Return column -> value of a row; None if the row does not fit the header.

    If the number of words equals the number of columns, each word is a value. Otherwise (an empty value, a client id
    with a space), the function splits the row at the positions of the columns, which must follow a blank.
    """
    joined = re.sub(r",\s+", ",", text)
    if "COORDINATOR (ID)" in header.columns:
        joined = _COORDINATOR.sub(r"\0\1", joined)
    words = [word.replace("\0", " ") for word in joined.split()]
    if header.kind == "state" and len(words) == len(header.columns) - 1:
        words = _with_blank_strategy(header, words)
    if len(words) == len(header.columns):
        return dict(zip(header.columns, words, strict=True))
    return _cells_by_place(header, text)


def _with_blank_strategy(header: _Header, words: list[str]) -> list[str]:
    """Insert the missing strategy of a group without members, for which Kafka 1 and 2 print a blank."""
    place = header.columns.index("STATE") - 1
    if header.columns[place] == "ASSIGNMENT-STRATEGY" and words[place] in STATES:
        return [*words[:place], NONE, *words[place:]]
    return words


def _cells_by_place(header: _Header, text: str) -> dict[str, str] | None:
    ends = [*header.starts[1:], max(len(text), header.starts[-1])]
    if any(start > 0 and text[start - 1 : start].strip() for start in header.starts) or "\t" in text:
        return None
    places = zip(header.columns, header.starts, ends, strict=True)
    cells = {column: text[start:end].strip() for column, start, end in places}
    return cells if len(header.columns) - sum(not cell for cell in cells.values()) >= 3 else None


def _assigned(text: str) -> tuple[tuple[str, int], ...]:
    """Return the partitions of ``t(0,1),u(2)`` (Kafka 1 to 3) or ``t:0,1;u:2`` (Kafka 4)."""
    found = []
    for part in text.split(";") if ":" in text and "(" not in text else re.findall(r"[^,]\S*?\)", text):
        match = _ASSIGNED.fullmatch(part)
        if match is not None:
            found += [(match[1], int(number)) for number in (match[2] or match[3]).split(",")]
    return tuple(found)


def _is_count(cell: str) -> bool:
    return cell == NONE or cell.lstrip("-").isdigit() or cell.lower() == "unknown"


def _count(cell: str) -> int | None:
    return int(cell) if cell != NONE and cell.lstrip("-").isdigit() else None


def _given(cell: str) -> str | None:
    return None if cell in ("", NONE) else cell
