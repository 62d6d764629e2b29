"""Read the output of ``kafka-topics --describe``, ``kafka-consumer-groups`` and ``kafka-groups --list``.

The layouts changed from Kafka 1 to 4: tabs or spaces, a colon with or without a space, new columns (GROUP,
GROUP-INSTANCE-ID, LEADER-EPOCH, UPGRADED, TopicId, Elr), new formats ("t(0,1), u(2)" became "t:0,1;u:2"). So the labels
in a topic's line identify the values, and the header of a table identifies the values of a group's row.

Source: TopicCommand and ConsumerGroupCommand of Kafka 1.1 to 4.3, GroupsCommand 4.0 to 4.3; KIP-175, KIP-1043,
KIP-1099.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from attrs import Factory

from kemu.emulator.scenario.groups import MOST_MEMBERS
from kemu.emulator.scenario.topics import MOST_PARTITIONS
from kemu.protocol.frozen import define, frozen
from kemu.tools.kafka_files.input_files import LARGEST_ID, LARGEST_OFFSET, is_topic, whole_number

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
_NOT_FOUND = re.compile(r"GroupIdNotFoundException: Group (\S+) not found")
_LONGEST_SENTENCE = 1_000
"""Maximum length of a line that is read as a sentence about a group, in characters."""
_OWN_NOTE = "Note: This will "
_COORDINATOR = re.compile(r"(?<!\s)\s+(\(-?[0-9]+\))")
_CONFIGS = re.compile(r",(?=[a-z][a-z0-9.]*=)")
"""Matches the commas between the settings of a topic. A setting such as ``cleanup.policy`` may have commas itself."""
_EPOCHS = ("CURRENT-EPOCH", "TARGET-EPOCH", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH")
_STATES_OF_CONSUMER_PROTOCOL = ("Assigning", "Reconciling")
_ASSIGNOR_OF_CONSUMER_PROTOCOL = "uniform"
"""The only assignor of a coordinator without a classic namesake. Source: ``UniformAssignor`` 4.0."""
_TYPES = ("Classic", "Consumer", "Share", "Streams", "Unknown")
"""Types of groups. Source: ``GroupType`` 4.0 to 4.3."""


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
    factor: int | None = None
    configs: tuple[str, ...] = ()
    """The topic's own settings, each ``key=value``."""
    replicas: dict[int, tuple[int, ...]] = Factory(dict)
    """Partition -> broker ids of its replicas, the preferred leader first."""


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
    """A member in the output about a group; ``assigned`` is empty without --verbose. ``client``: see ``GroupFacts``.

    ``classic``: whether the member uses the classic protocol in a group with members of the consumer protocol.
    """

    consumer: str
    client: str
    instance: str | None
    assigned: tuple[tuple[str, int], ...]
    classic: bool = False


@define
class GroupFacts:
    """The facts about a group, from the last table that contains the group. ``name``: "" if no column has the name."""

    name: str
    offsets: dict[tuple[str, int], OffsetRow] = Factory(dict)
    clients: dict[str, str] = Factory(dict)
    """Consumer id -> client id and host, "billing-1 on /10.0.0.5", for the consumers in the offsets table."""
    first_end: dict[tuple[str, int], int] = Factory(dict)
    """Log end offset of each partition in the first table with this partition."""
    offset_tables: int = 0
    members: dict[str, MemberRow] | None = None
    member_count: int | None = None
    state: str | None = None
    strategy: str | None = None
    consumer_protocol_sign: str = ""
    """The cell that only a group of the consumer protocol (KIP-848) has, "CURRENT-EPOCH 5"; "" for a classic group."""


@define
class Found:
    """All facts from the files so far."""

    topics: dict[str, TopicFacts] = Factory(dict)
    groups: dict[str, GroupFacts] = Factory(dict)
    brokers: dict[int, None] = Factory(dict)
    remarks: list[str] = Factory(list)
    """Sentences that the tools printed about groups."""
    types: dict[str, str] = Factory(dict)
    """Group -> its type in a list of groups: "Classic", "Consumer"."""

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

    ``understood`` is the number of understood lines; ``rest`` contains the other lines. ``useful`` is the number of
    understood lines with a fact, so headers of tables are left out. ``missing`` contains the sentences of the tools
    about groups that do not exist: the number of the line, and the group.
    """

    def __init__(self, found: Found) -> None:
        self.understood = 0
        self.useful = 0
        self.rest: list[Line] = []
        self.missing: list[Line] = []
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
            if self._is_no_fact(text):
                self.understood += 1
            elif self._read_line(line.number, text):
                self.understood += 1
                self.useful += 1
            else:
                self.rest.append(line)

    def _is_no_fact(self, text: str) -> bool:
        """Return whether a line is the header of a table, which is kept for the rows, or a note of the tool itself."""
        header = _read_header(text)
        if header is not None:
            self._header, self._fresh = header, set()
        return header is not None or text.startswith(_OWN_NOTE)

    def _read_line(self, number: int, text: str) -> bool:
        if text.lstrip().startswith("Topic:"):
            return self._read_topic(text)
        if len(text) <= _LONGEST_SENTENCE and self._read_sentence(number, text):
            return True
        return self._header is not None and self._read_row(self._header, text)

    def _read_sentence(self, number: int, text: str) -> bool:
        if missing := _NOT_FOUND.search(text):
            self.missing.append(Line(number, missing[1]))
            return True
        about = _ABOUT_GROUP.search(text)
        if about is None:
            return False
        if about[2] == "does not exist":
            self.missing.append(Line(number, about[1]))
            return True
        self._found.remarks.append(text.strip())
        if about[2] == "has no active members":
            self._found.group(about[1]).state = "Empty"
        return True

    def _read_topic(self, text: str) -> bool:
        labels = list(_LABEL.finditer(text))
        ends = [label.start() for label in labels[1:]] + [len(text)]
        values = {label[1]: text[label.end() : end].strip() for label, end in zip(labels, ends, strict=True)}
        summary = "PartitionCount" in values
        number = whole_number(values.get("PartitionCount" if summary else "Partition", ""), MOST_PARTITIONS)
        if not is_topic(values.get("Topic", "")) or number is None or number == (0 if summary else MOST_PARTITIONS):
            return False
        topic = self._found.topic(values["Topic"])
        if summary:
            topic.partitions, topic.replicas = number, {}
            topic.factor = whole_number(values.get("ReplicationFactor", ""), LARGEST_ID) or None
            topic.configs = tuple(_CONFIGS.split(values["Configs"])) if values.get("Configs") else ()
        else:
            topic.highest = max(topic.highest, number)
            topic.replicas[number] = _ids(values.get("Replicas", ""))
        for label in _BROKER_LABELS:
            self._found.brokers.update(dict.fromkeys(_ids(values.get(label, ""))))
        return True

    def _read_row(self, header: _Header, text: str) -> bool:
        cells = _cells(header, text)
        if cells is None:
            return False
        group = cells.get("GROUP", "")
        if "GROUP" in cells and group in ("", NONE):
            return False
        first = group not in self._fresh
        read = {
            "offsets": self._read_offsets,
            "members": self._read_member,
            "state": self._read_state,
            "list": self._read_listed,
        }[header.kind]
        if not read(group, cells, first):
            return False
        self._fresh.add(group)
        return True

    def _read_offsets(self, name: str, cells: dict[str, str], first: bool) -> bool:
        counts = [
            cells["PARTITION"],
            cells["LAG"],
            cells.get("LOG-END-OFFSET", NONE),
            cells.get("CURRENT-OFFSET", NONE),
        ]
        if not all(_is_count(cell) for cell in counts):
            return False
        number = whole_number(cells["PARTITION"], MOST_PARTITIONS - 1)
        consumer = _given(cells.get("CONSUMER-ID", cells.get("OWNER", NONE)))
        if number is None and (cells["PARTITION"] != NONE or consumer is None):
            return False
        if number is not None and not is_topic(cells["TOPIC"]):
            return False
        group = self._found.group(name)
        if first:
            group.offsets, group.clients = {}, {}
            group.offset_tables += 1
        if consumer is not None:
            group.clients[consumer] = _client(cells)
        if number is None:
            return True
        topic = self._found.topic(cells["TOPIC"])
        topic.highest = max(topic.highest, number)
        row = OffsetRow(topic.name, number, _count(counts[2]), _count(counts[1]), consumer)
        group.offsets[row.topic, row.partition] = row
        if row.end is not None:
            group.first_end.setdefault((row.topic, row.partition), row.end)
        return True

    def _read_member(self, name: str, cells: dict[str, str], first: bool) -> bool:
        consumer = cells["CONSUMER-ID"]
        assigned = _assigned(next((cells[column] for column in _ASSIGNMENT_COLUMNS if column in cells), NONE))
        if consumer in ("", NONE) or not _is_count(cells.get("#PARTITIONS", NONE)) or assigned is None:
            return False
        group = self._found.group(name)
        if first or group.members is None:
            group.members = {}
        for topic_name, partition in assigned:
            topic = self._found.topic(topic_name)
            topic.highest = max(topic.highest, partition)
        instance = _given(cells.get("GROUP-INSTANCE-ID", NONE))
        classic = cells.get("UPGRADED") == "false"
        group.members[consumer] = MemberRow(consumer, _client(cells), instance, assigned, classic)
        group.consumer_protocol_sign = group.consumer_protocol_sign or _epoch(cells)
        return True

    def _read_state(self, name: str, cells: dict[str, str], first: bool) -> bool:
        members = whole_number(cells["#MEMBERS"], MOST_MEMBERS)
        if cells["STATE"] not in STATES or members is None:
            return False
        group = self._found.group(name)
        group.state, group.member_count = cells["STATE"], members
        group.strategy = _given(cells.get("ASSIGNMENT-STRATEGY", NONE))
        sign = _epoch(cells)
        if group.state in _STATES_OF_CONSUMER_PROTOCOL:
            sign = f"STATE {group.state}"
        elif not sign and group.strategy == _ASSIGNOR_OF_CONSUMER_PROTOCOL:
            sign = f"ASSIGNMENT-STRATEGY {group.strategy}"
        group.consumer_protocol_sign = group.consumer_protocol_sign or sign
        coordinator = _COORDINATOR.search(cells.get("COORDINATOR (ID)", ""))
        if coordinator is not None:
            self._found.brokers.update(dict.fromkeys(_ids(coordinator[1].strip("()"))))
        return True

    def _read_listed(self, name: str, cells: dict[str, str], first: bool) -> bool:
        kind = cells.get("TYPE")
        if kind not in (None, *_TYPES) or cells.get("STATE") not in (None, *STATES):
            return False
        if kind is not None:
            self._found.types[name] = kind
        return True


_ASSIGNMENT_COLUMNS = ("ASSIGNMENT", "ASSIGNMENT(S)", "CURRENT-ASSIGNMENT")
_KINDS: Sequence[tuple[str, frozenset[str]]] = (
    ("offsets", frozenset(("TOPIC", "PARTITION", "LAG"))),
    ("members", frozenset(("CONSUMER-ID", "#PARTITIONS"))),
    ("state", frozenset(("STATE", "#MEMBERS"))),
    ("list", frozenset(("GROUP", "TYPE"))),
    ("list", frozenset(("GROUP", "STATE"))),
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
    least = 2 if header.kind == "list" else 3
    return cells if sum(bool(cell) for cell in cells.values()) >= least else None


def _assigned(text: str) -> tuple[tuple[str, int], ...] | None:
    """Return the partitions of ``t(0,1),u(2)`` (Kafka 1 to 3) or ``t:0,1;u:2`` (Kafka 4); None for other texts."""
    if text in ("", NONE):
        return ()
    older = "(" in text
    found: list[tuple[str, int]] = []
    for part in text.removesuffix(")").split(")") if older else text.split(";"):
        topic, _, listed = part.partition("(") if older else part.rpartition(":")
        topic = topic.lstrip(", ")
        numbers = [whole_number(number.strip(), MOST_PARTITIONS - 1) for number in listed.split(",")]
        if not is_topic(topic) or None in numbers:
            return None
        found += [(topic, number) for number in numbers if number is not None]
    return tuple(found)


@lru_cache(maxsize=10_000)
def _ids(text: str) -> tuple[int, ...]:
    """Return the broker ids in a list such as ``1,2``; other words, such as "none" and "N/A", are left out."""
    ids = (whole_number(part.strip(), LARGEST_ID) for part in text.split(","))
    return tuple(broker for broker in ids if broker is not None)


def _client(cells: dict[str, str]) -> str:
    """Return the client id and the host of a row: "billing-1 on /10.0.0.5"."""
    client, host = (_given(cells.get(column, NONE)) for column in ("CLIENT-ID", "HOST"))
    client = client or cells.get("CONSUMER-ID") or cells.get("OWNER", NONE)
    return f"{client} on {host}" if host else client


def _epoch(cells: dict[str, str]) -> str:
    """Return the first epoch of a row. The tools print "-" for a classic group. Source: ConsumerGroupCommand (4.0)."""
    given = ((column, cells.get(column, NONE)) for column in _EPOCHS)
    return next((f"{column} {cell}" for column, cell in given if whole_number(cell, LARGEST_ID) is not None), "")


def _is_count(cell: str) -> bool:
    return cell == NONE or cell.lower() == "unknown" or _count(cell) is not None


def _count(cell: str) -> int | None:
    number = whole_number(cell.removeprefix("-"), LARGEST_OFFSET)
    return -number if number is not None and cell.startswith("-") else number


def _given(cell: str) -> str | None:
    return None if cell in ("", NONE) else cell
