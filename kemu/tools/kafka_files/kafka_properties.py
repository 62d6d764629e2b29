"""Read ``.properties`` files of consumers, brokers and producers: the emulated keys and the unused keys."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kemu.emulator.scenario.keys import Declared, declared
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.text.kafka_keys import SET_BY_SCENARIO, Settings, as_settings, fields_of
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.frozen import frozen
from kemu.tools.kafka_files.input_files import LARGEST_ID, whole_number
from kemu.tools.kafka_files.kafka_output import Line

KINDS: Mapping[str, type] = {"consumer": ConsumerConfig, "broker": BrokerConfig, "producer": ProducerConfig}

_SIGNS: Mapping[str, frozenset[str]] = {
    kind: frozenset(keys.split())
    for kind, keys in {
        "broker": "broker.id broker.rack node.id process.roles listeners advertised.listeners log.dirs log.dir "
        "listener.security.protocol.map inter.broker.listener.name controller.listener.names zookeeper.connect "
        "zookeeper.connection.timeout.ms num.network.threads num.io.threads num.partitions "
        "num.recovery.threads.per.data.dir socket.send.buffer.bytes socket.receive.buffer.bytes "
        "socket.request.max.bytes controller.quorum.voters offsets.topic.replication.factor "
        "transaction.state.log.replication.factor transaction.state.log.min.isr log.cleaner.enable "
        "delete.topic.enable auto.create.topics.enable",
        "consumer": "group.id key.deserializer value.deserializer isolation.level client.rack group.instance.id "
        "interceptor.classes group.protocol",
        "producer": "key.serializer value.serializer compression.type batch.size transactional.id buffer.memory",
    }.items()
}
"""Kind of process -> known keys of Kafka that kemu does not emulate. These keys get no hint about spelling."""
_ALL_SIGNS = frozenset[str]().union(*_SIGNS.values())
_PREFIX = re.compile(r"^(?:(?:main\.)?consumer\.(?:override\.)?|spring\.kafka\.consumer\.properties\.)")
"""Matches prefixes of a consumer's keys in files of Connect, Streams and Spring."""
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])+)\s*(?:[=:]|\s)\s*(.*)")
_LOOKS = re.compile(r"\s*[A-Za-z][\w-]*(?:\.[\w-]+)*\s*=")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen
class Properties:
    """The contents of one file: the kind of process, and the emulated settings.

    ``group`` and ``instance`` are the consumer's ``group.id`` and ``group.instance.id``. ``replication`` has a broker's
    settings of replicas, by the keys of [brokers.replication]. ``kip_848``: whether ``group.protocol`` is "consumer".
    """

    source: str
    kind: str
    settings: Settings
    group: str | None
    instance: str | None
    replication: Mapping[str, int | bool | str]
    kip_848: bool
    unused: tuple[Line, ...]
    """Lines whose key has no effect in kemu: the number of the line, and the key with the reason."""


MOST_LINES = 5_000
"""Maximum number of lines in a properties file. Kafka's own ``server.properties`` has fewer than 200."""
LONGEST_VALUE = 10_000

_REPLICATION: Mapping[str, Declared] = {
    each.key.kafkas[0]: each for each in declared(ReplicationSpec) if each.key.kafkas[0]
}
"""Kafka's key of a broker -> key of [brokers.replication]."""


def looks_like_properties(name: str, lines: Iterable[Line]) -> bool:
    """Return whether a file is a properties file, by its name or its lines (``key=value`` or comments)."""
    if name.endswith((".properties", ".conf", ".cnf", ".cfg")):
        return True
    pairs = [line for line in lines if line.text.strip() and line.text.lstrip()[0] not in "#!"]
    return bool(pairs) and all(_LOOKS.match(line.text) for line in pairs)


def read_properties(source: str, lines: Sequence[Line]) -> Properties | None:
    """Return the settings of a file; None for a file without a known key.

    Raises:
        ScenarioError: a value is invalid, settings contradict each other, or the file is too long.
    """
    if len(lines) > MOST_LINES:
        raise ScenarioError([Problem((), f"is a properties file of more than {MOST_LINES:,} lines")], source)
    pairs = [(number, _PREFIX.sub("", key), text) for number, key, text in _pairs(lines)]
    kind = _kind(key for _, key, _ in pairs)
    cls = KINDS[kind]
    known = fields_of(cls)
    texts: dict[str, str] = {}
    identity: dict[str, str] = {}
    unused: list[Line] = []
    replication: dict[str, int | bool | str] = {}
    kip_848 = False
    for number, key, text in pairs:
        if key == "group.protocol" and kind == "consumer":
            kip_848 = text.lower() == "consumer"
        elif kind == "consumer" and key in SET_BY_SCENARIO:
            identity[key] = text
        elif kind == "broker" and key in _REPLICATION and (value := _replica_value(key, text)) is not None:
            replication[_REPLICATION[key].name] = value
        elif key not in known:
            unused.append(Line(number, f"{key} has no effect here{_hint(key, known)}"))
        else:
            problem = _problem(cls, key, text)
            if problem is None:
                texts[key] = text
            else:
                unused.append(Line(number, f"{key} {problem}"))
    if "client.id" in identity:
        number = next(number for number, key, _ in pairs if key == "client.id")
        unused.append(Line(number, f"client.id has no effect here; {SET_BY_SCENARIO['client.id']}"))
    if not (texts or identity or replication or kip_848):
        return None
    try:
        settings = as_settings(cls, texts)
    except ScenarioError as error:
        raise ScenarioError(error.problems, source) from None
    unused.sort(key=lambda line: line.number)
    group, instance = identity.get("group.id"), identity.get("group.instance.id")
    return Properties(source, kind, settings, group, instance, replication, kip_848, tuple(unused))


def _replica_value(key: str, text: str) -> int | bool | str | None:
    """Return the value for a key of [brokers.replication]; None for a value of another type."""
    if isinstance(_REPLICATION[key].default, bool):
        return {"true": True, "false": False}.get(text.lower())
    number = whole_number(text, LARGEST_ID)
    return f"{number}ms" if number is not None and _REPLICATION[key].key.kafkas[1] == "ms" else number


def _hint(key: str, known: Iterable[str]) -> str:
    """Return a hint that names the kind of process with this key, or the most similar key."""
    other = next((name for name, one in KINDS.items() if key in fields_of(one)), None)
    if other is not None:
        return f"; it is a key of a {other}"
    meant = "" if key in _ALL_SIGNS else nearest(key, known)
    return meant if "?" in meant else ""


def _problem(cls: type, key: str, text: str) -> str | None:
    """Return the problem of one value, or None. The caller checks relations between values after the last key."""
    if len(text) > LONGEST_VALUE:
        return f"has a value of more than {LONGEST_VALUE:,} characters"
    try:
        as_settings(cls, {key: text})
    except ScenarioError as error:
        problem = error.problems[0].text
        return None if "must be less than" in problem else problem
    return None


def _kind(keys: Iterable[str]) -> str:
    """Return the kind of process that the keys fit best; a key of only one kind weighs more than a shared key."""
    votes: Counter[str] = Counter({"consumer": 0})
    for key in keys:
        for kind, cls in KINDS.items():
            votes[kind] += 3 * (key in _SIGNS[kind]) + 2 * (key in fields_of(cls))
    return max(votes, key=lambda kind: votes[kind])


def _pairs(lines: Iterable[Line]) -> Iterable[tuple[int, str, str]]:
    """Yield (line, key, value) by the syntax of ``java.util.Properties``, with continued lines and escapes."""
    begun: list[str] = []
    number = 0
    for line in lines:
        text = line.text.lstrip()
        if not begun:
            if not text or text[0] in "#!":
                continue
            number = line.number
        text = text.rstrip("\r\n")
        if (len(text) - len(text.rstrip("\\"))) % 2:
            begun.append(text[:-1])
            continue
        yield from _pair(number, "".join((*begun, text)))
        begun = []
    if begun:
        yield from _pair(number, "".join(begun))


def _pair(number: int, logical: str) -> Iterable[tuple[int, str, str]]:
    match = _PAIR.fullmatch(logical)
    key, text = (match[1], match[2]) if match else (logical, "")
    yield number, _unescaped(key), _unescaped(text).strip()


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)
