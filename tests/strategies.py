"""Hypothesis strategies made from the declarations, so that a new message is tested without a word here."""

from collections.abc import Iterator
from enum import IntEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st

import kemu.protocol.commands
import kemu.protocol.messages
import kemu.protocol.notes.groups  # noqa: F401 (the imports fill the registries)
from kemu.protocol.messages.member import Assignment, Subscription
from kemu.protocol.messages.records import GroupMetadata, StoredMember, StoredOffset
from kemu.protocol.wire.schema import MESSAGES, STRUCTS, Field, MessageSpec

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-2, 300) | INT64,
    str: TEXT,
    bytes: st.binary(max_size=12),
    bool: st.booleans(),
}


def every_version() -> Iterator[tuple[MessageSpec, int]]:
    """Every declared message with each of its versions, in order of declaration."""
    for spec in MESSAGES.values():
        for version in spec.versions:
            yield spec, version


def values_of(annotation: Any, version: int) -> st.SearchStrategy[Any]:
    """Values of a field's type that version ``version`` can carry."""
    if get_origin(annotation) in (Union, UnionType):
        return st.one_of([values_of(part, version) for part in get_args(annotation)])
    if annotation is type(None):
        return st.none()
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return st.sampled_from(list(annotation))
    if isinstance(annotation, type) and annotation in STRUCTS:
        return instances(annotation, STRUCTS[annotation], version)
    assert get_origin(annotation) is tuple, annotation
    parts = get_args(annotation)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return st.lists(values_of(parts[0], version), max_size=3).map(tuple)
    return st.tuples(*[values_of(part, version) for part in parts])


def instances(cls: type, fields: tuple[Field, ...], version: int) -> st.SearchStrategy[Any]:
    """Instances of a declared class whose fields unknown to ``version`` have their defaults."""
    return st.builds(cls, **{field.name: values_of(field.annotation, version) for field in carried(fields, version)})


def messages(spec: MessageSpec, version: int) -> st.SearchStrategy[Any]:
    """Messages as this version can say them."""
    return instances(spec.cls, spec.fields, version)


def carried(fields: tuple[Field, ...], version: int) -> list[Field]:
    """The fields of a version."""
    return [field for field in fields if field.since <= version <= field.until]


# --- the layouts of protocol.binary --------------------------------------------------------------------------------

TOPIC_PARTITIONS = st.lists(st.tuples(TEXT, INT32), max_size=5).map(tuple)
USER_DATA = st.none() | st.binary(max_size=8)

SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(TEXT, max_size=4).map(tuple),
    user_data=USER_DATA,
    owned=TOPIC_PARTITIONS,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | TEXT,
)
ASSIGNMENTS = st.builds(Assignment, partitions=TOPIC_PARTITIONS, user_data=USER_DATA)

STORED_MEMBERS = st.builds(
    StoredMember,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32,
    session_timeout_ms=INT32,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
GROUPS = st.builds(
    GroupMetadata,
    group=TEXT,
    protocol_type=TEXT,
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    state_timestamp_ms=INT64,
    members=st.lists(STORED_MEMBERS, max_size=3).map(tuple),
)
STORED_OFFSETS = st.builds(
    StoredOffset,
    offset=INT64,
    leader_epoch=INT32,
    metadata=TEXT,
    commit_timestamp_ms=INT64,
    expire_timestamp_ms=st.none() | st.integers(0, 2**63 - 1),
    topic_id=TEXT,
)
