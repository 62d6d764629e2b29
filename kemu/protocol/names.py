"""Names of actors and hosts, and the functions that build and parse them. No other module builds or parses names.

Values are plain strings, ints and tuples, so that codecs and sorting need no special code. Type aliases document the
values.

==========================  ===================================================================================
name                        actor
==========================  ===================================================================================
``b0``, ``b1``              brokers; the number is Kafka's broker id
``b0/coordinator``          the group coordinator of that broker's process
``b0/controller``           the controller part of that broker's process
``c1``, ``c2``              consumers, numbered over all groups
``p1``, ``p2``              producers, one per topic
``admin``                   the admin client
``zk``                      the metadata store
``x-app1``                  a real client of ``kemu serve``; its name for users is ``app1``
``x-app1/7``                a TCP connection of that client
``c1/main``                 a machine inside the machine of ``c1``, as its peers address it (``part_on``)
``main>b0``                 ``b0``, over the inner machine's own connection, as ``c1`` addresses it (``through``)
==========================  ===================================================================================
"""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Any, NewType, TypeAlias, TypeVar

TopicPartition: TypeAlias = tuple[str, int]
"""(topic, partition number). Plain tuples sort by topic, then by number, as Kafka's comparators do."""

MemberId: TypeAlias = str
GroupId: TypeAlias = str
ActorName: TypeAlias = str
"""The name of an actor: ``c1`` (a client), ``b0`` (a broker), ``b0/coordinator`` (a part with its own mailbox)."""

HostName = NewType("HostName", str)

CONSUMER = "consumer"
"""The protocol type of consumers' groups. Source: ``ConsumerProtocol.PROTOCOL_TYPE``."""
CLASSIC = "classic"
"""The type of groups before KIP-848; ``CONSUMER`` is the other type. Source: ``Group.GroupType``."""
UNKNOWN_MEMBER: MemberId = ""
"""The member id in JoinGroup before the member has an id, and in errors that remove a member's id."""

MEMBER_ID_END = r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|b\d+\.\d+(?:\.\d+)?-\d+)"
"""Regular expression of the end of a member id, after the client or instance id and a hyphen: a UUID. Where identities
are not drawn: the broker, its leader epoch, its life from the second on, and a number.
"""

NO_GENERATION = -1
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50


SEPARATOR = "/"
"""The separator between the name of a host and the name of an actor on the host."""
CONTROLLER_SUFFIX = SEPARATOR + "controller"
_COORDINATOR_SUFFIX = SEPARATOR + "coordinator"
STORE = HostName("zk")
ADMIN = HostName("admin")
REAL_CLIENT = "x-"
"""The beginning of the host names of real clients. Users choose the rest, so no first letter of a name is a role."""


_Key = TypeVar("_Key", bound=tuple[Any, ...])
_SHARED: dict[Any, Any] = {}


def shared(key: _Key) -> _Key:
    """Return the one tuple of these values that accounts keep. A partition is a key of dozens of accounts."""
    kept: _Key = _SHARED.setdefault(key, key)
    return kept


def is_legal_name(topic: str) -> bool:
    """Whether the name of a topic is legal. Source: Kafka's ``Topic.validate``."""
    legal = all(char.isascii() and (char.isalnum() or char in "._-") for char in topic)
    return legal and 0 < len(topic) <= 249 and topic not in (".", "..")


@lru_cache(maxsize=16_384)
def host_of(actor: ActorName) -> HostName:
    """The host of an actor: the part of the actor's name before the slash."""
    return HostName(actor.partition(SEPARATOR)[0])


def broker_host(node_id: int) -> HostName:
    """The host of a broker, which is also the name of the broker's actor."""
    return HostName(f"b{node_id}")


def broker_of(host: ActorName) -> int:
    """Kafka's id of the broker on this host; raises ValueError for another host."""
    if not host.startswith("b"):
        raise ValueError(f"{host} is not a broker")
    return int(host[1:])


def coordinator_on(broker: str) -> ActorName:
    """The group coordinator of a broker's process."""
    return broker + _COORDINATOR_SUFFIX


def controller_on(broker: str) -> ActorName:
    """The controller part of a broker's process."""
    return broker + CONTROLLER_SUFFIX


def is_coordinator(actor: ActorName) -> bool:
    """Whether the actor is the group coordinator of a broker."""
    return actor.endswith(_COORDINATOR_SUFFIX)


def is_controller(actor: ActorName) -> bool:
    """Whether the actor is the controller part of a broker."""
    return actor.endswith(CONTROLLER_SUFFIX)


def consumer_host(number: int) -> HostName:
    """The host of a consumer. Numbers begin with 1, over all groups."""
    return HostName(intern(f"c{number}"))


def number_of(host: ActorName) -> int:
    """The number in the name of a client's host."""
    return int(host[1:])


def producer_host(number: int) -> HostName:
    """The host of a producer. Numbers begin with 1; each topic has one producer."""
    return HostName(f"p{number}")


def client_host(name: str) -> HostName:
    """The host of a real client with this name."""
    return HostName(REAL_CLIENT + name)


def client_of(host: ActorName) -> str:
    """The name of the real client on this host."""
    assert host.startswith(REAL_CLIENT), f"{host} is no real client"
    return host_of(host).removeprefix(REAL_CLIENT)


def is_real_client(actor: ActorName) -> bool:
    """Whether the actor is a real client of ``kemu serve``, or one of its connections."""
    return actor.startswith(REAL_CLIENT)


THROUGH = ">"
"""The separator between the sending part of an actor and its peer."""


def part_on(actor: ActorName, part: str) -> ActorName:
    """The name by which peers address a part of an actor: an inner machine with its own connections."""
    return f"{actor}{SEPARATOR}{part}" if part else actor


def part_of(actor: ActorName) -> str:
    """The name of a part inside its actor; "" for an actor without a part."""
    return actor.partition(SEPARATOR)[2]


def means(named: str, actor: ActorName) -> bool:
    """Whether ``named`` covers this actor: the actor itself, its host, its parts, or "" for any actor."""
    return not named or actor == named or actor.startswith(named + SEPARATOR)


def through(part: str, peer: str) -> str:
    """An actor's own name for a connection, timer or log of one of its parts. A part may have parts of its own."""
    return f"{part}{THROUGH}{peer}"


def path_and_peer(name: str) -> tuple[str, str]:
    """Split a name made by ``through`` into the part ("" = the actor itself) and the peer."""
    path, _, peer = name.rpartition(THROUGH)
    return path.replace(THROUGH, SEPARATOR), peer


def part_and_rest(name: str) -> tuple[str, str]:
    """Split a name made by ``through`` into the outermost part ("" without a part) and the remaining name.

    The part uses the remaining name for the same connection, timer or log.
    """
    part, found, rest = name.partition(THROUGH)
    return (part, rest) if found else ("", name)


@lru_cache(maxsize=16_384)
def java_string_hash(text: str) -> int:
    """``String.hashCode`` of the UTF-16 form, as a signed 32-bit integer."""
    code = 0
    encoded = text.encode("utf-16-be")
    for index in range(0, len(encoded), 2):
        code = (31 * code + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def offsets_partition_of(group: GroupId, partitions: int = OFFSETS_PARTITIONS) -> int:
    """The partition of ``__consumer_offsets`` that stores a group. The partition's leader is the group's coordinator.

    Source: Kafka's ``Utils.abs``: the absolute value; for the smallest int the result is 0.
    """
    code = java_string_hash(group)
    return (0 if code == -(1 << 31) else abs(code)) % partitions


@lru_cache(maxsize=16_384)
def role_of(actor: ActorName) -> str:
    """The role of an actor: "coordinator", "controller", "broker", "store", "admin", "producer", "client" or
    "member"; a "client" is real.
    """
    if is_coordinator(actor):
        return "coordinator"
    if is_controller(actor):
        return "controller"
    host = host_of(actor)
    if host in (STORE, ADMIN):
        return "store" if host == STORE else "admin"
    return {"b": "broker", "p": "producer", REAL_CLIENT[0]: "client"}.get(host[0], "member")


def partitions_text(pairs: Iterable[TopicPartition]) -> str:
    """Partitions as text, with consecutive numbers as a range: t-0..5."""
    runs: list[list[Any]] = []
    for topic, number in pairs:
        if runs and runs[-1][0] == topic and runs[-1][2] == number - 1:
            runs[-1][2] = number
        else:
            runs.append([topic, number, number])
    return ",".join([f"{topic}-{first}" + (f"..{last}" if last > first else "") for topic, first, last in runs])
