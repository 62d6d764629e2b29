"""Names: the one address book, which host an actor lives on, which partition of the offsets topic holds a group."""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.names import (
    OFFSETS_PARTITIONS,
    broker_host,
    broker_of,
    controller_on,
    coordinator_on,
    host_of,
    is_controller,
    java_string_hash,
    offsets_partition_of,
)
from tests.protocol.vectors import examples
from tests.sources import ONE_PROCESS, ROOT, nodes


@pytest.mark.parametrize("row", examples("group->offsets partition (50 partitions)"))
def test_a_group_lives_in_kafkas_partition(row: dict[str, Any]):
    """Source: partitionFor: Utils.abs(groupId.hashCode) % partitions."""
    assert offsets_partition_of(row["input"]["group"]) == row["partition"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("group", 98_629_247), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1_772_899)],
)
def test_strings_hash_as_in_java(text: str, code: int):
    """``String.hashCode`` counts UTF-16 units; a character beyond the first plane is two of them."""
    assert java_string_hash(text) == code


def test_the_smallest_hash_counts_as_zero():
    """Utils.abs: the absolute value of the smallest int is no int."""
    assert offsets_partition_of("polygenelubricants") == 0
    assert offsets_partition_of("") == 0


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 500))
def test_every_group_has_a_partition(group: str, partitions: int):
    """For any name."""
    assert 0 <= offsets_partition_of(group, partitions) < partitions
    assert 0 <= offsets_partition_of(group) < OFFSETS_PARTITIONS


def test_a_part_of_a_host_lives_on_it():
    """``b0/coordinator`` crashes with ``b0``."""
    assert [host_of(name) for name in ("c1", "b0", "b0/coordinator")] == ["c1", "b0", "b0"]


@given(st.integers(0, 10_000))
def test_what_makes_an_address_and_what_reads_it_agree(number: int):
    """One module makes and reads addresses, so they are each other's inverse."""
    broker = broker_host(number)
    assert broker_of(broker) == number
    for part in (controller_on(broker), coordinator_on(broker)):
        assert host_of(part) == broker
    assert is_controller(controller_on(broker))
    assert not is_controller(coordinator_on(broker))


@pytest.mark.parametrize("other", ["c1", "zk", "admin", ""])
def test_another_host_has_no_broker_id(other: str):
    """A checker that asked for one would reason about the wrong host."""
    with pytest.raises(ValueError, match="not a broker"):
        broker_of(other)


def addresses_in(nodes: Iterable[ast.AST], path: str = "") -> Iterator[str]:
    """Where a module makes or reads an address itself: f"b{...}", "/controller", int(host[1:]), "zk" and so on."""
    for node in nodes:
        match node:
            case ast.JoinedStr(values=values):
                for before, part in zip([None, *values], values, strict=False):
                    text = before.value if isinstance(before, ast.Constant) else ""
                    made = re.search(r"(^|[^\w%])[bcp]$", str(text)) if isinstance(part, ast.FormattedValue) else None
                    if made and ((before is values[0] and len(str(text)) == 1) or str(text)[-1] == "b"):
                        yield f"{path}:{node.lineno}: makes the name of a host"
            case ast.Call(func=ast.Name(id="int"), args=[ast.Subscript(slice=ast.Slice(lower=ast.Constant(value=1)))]):
                yield f"{path}:{node.lineno}: reads a number from a name"
            case ast.Call(func=ast.Attribute(attr="partition"), args=[ast.Constant(value="/")]):
                yield f"{path}:{node.lineno}: reads a host from a name"
        match node:
            case ast.Constant(value="/coordinator" | "zk"):
                yield f"{path}:{node.lineno}: names an actor"
            case ast.Constant(value="/controller") if path != "kemu/protocol/nodes.py":
                yield f"{path}:{node.lineno}: names an actor"


@pytest.mark.parametrize(
    "line",
    [
        'f"b{node}"', 'f"c{index}"', 'f"p{index}"', 'f"led by b{node}"', 'f"{name}/controller"',
        'f"{name}/coordinator"',
        'seen.actor.endswith("/controller")', "int(host[1:])", 'actor.partition("/")', 'Store("zk")',
    ],
)  # fmt: skip
def test_the_scan_finds_an_address_that_is_made_or_read_by_hand(line: str):
    """Patterns for the next test: each of these was once in the code."""
    assert list(addresses_in(ast.walk(ast.parse(line))))


@ONE_PROCESS
def test_no_other_module_makes_or_reads_addresses():
    """``kemu/protocol/names.py`` is the one address book: how actors are called can be changed there alone."""
    found = []
    for folder in ("kemu", "lab"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            if path != "kemu/protocol/names.py":
                found += addresses_in(nodes(file), path)
    assert found == []
