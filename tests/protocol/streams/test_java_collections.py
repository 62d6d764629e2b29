"""Java's collections as far as Kafka's task assignors show them."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.streams.java_collections import (
    IN_ORDER,
    HashOrder,
    LeastLoaded,
    PriorityQueue,
    hash_order,
    process_hash,
    task_hash,
    task_hash_before_3_0,
)
from kemu.protocol.streams.tasks import TaskId, client_order, task_id


def tasks(*names: str) -> list[TaskId]:
    return [task_id(name) for name in names]


def test_a_hash_set_lists_by_bins_and_bins_as_they_were_filled() -> None:
    """Java: ``new HashSet<>(List.of(33, 1, 17, 2))`` prints [33, 1, 17, 2] with 16 bins."""
    assert hash_order([33, 1, 17, 2], int) == [33, 1, 17, 2]
    assert hash_order([2, 17, 1, 33], int) == [17, 1, 33, 2]


def test_a_table_grows_with_the_thirteenth_key() -> None:
    """``HashMap``: 16 bins up to 12 keys."""
    assert hash_order([*range(11), 16], int) == [0, 16, *range(1, 11)]
    assert hash_order([*range(12), 16], int) == [*range(12), 16]


def test_a_copy_has_a_table_for_all_of_it() -> None:
    """``HashSet(Collection)``: for 12 keys 32 bins."""
    assert hash_order([*range(11), 16], int, copied=True) == [*range(11), 16]


@given(st.lists(st.uuids(), max_size=8, unique=True))
def test_processes_are_ordered_as_javas_uuids(ids: list[uuid.UUID]) -> None:
    """``UUID.compareTo`` compares the first half as a signed number."""
    signed = [(each.int >> 64) - (1 << 64 if each.int >> 127 else 0) for each in ids]
    in_java = [each.hex for _, each in sorted(zip(signed, ids, strict=True))]

    assert sorted((each.hex for each in ids), key=client_order) == in_java
    assert sorted(["c2", "c10", "abc"], key=client_order) == ["abc", "c10", "c2"]


def test_a_full_bin_makes_a_small_table_grow() -> None:
    """``HashMap.treeifyBin``: below 64 bins it resizes; nine keys of one bin part in 32."""
    keys = [16 * number for number in range(9)]

    assert hash_order(keys[:8], int) == keys[:8]
    assert hash_order(keys, int) == [*keys[::2], *keys[1::2]]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("0_0", 0, 29_791), ("0_5", 5, 29_946), ("1_0", 1, 30_752), ("2_7", 9, 31_930)],
)
def test_tasks_hash_as_in_java(name: str, old: int, new: int) -> None:
    """(group << 32 | partition) % 0xFFFFFFFF up to 2.8; ``Objects.hash(group, partition, null)`` since."""
    assert task_hash_before_3_0(task_id(name)) == old
    assert task_hash(task_id(name)) == new


def test_process_ids_hash_as_uuids() -> None:
    """``UUID.hashCode``: both halves and their halves, one over the other."""
    one = uuid.UUID("12345678-9abc-def0-0fed-cba987654300")

    assert process_hash(one.hex) == 0x12345678 ^ 0x9ABCDEF0 ^ 0x0FEDCBA9 ^ 0x87654300 == 0x21
    assert process_hash(uuid.UUID(int=7).hex) == 7


def test_clients_that_are_no_processes_are_visited_by_name() -> None:
    order = HashOrder(task_hash)

    assert order.clients(["P2", "P10", "P1"]) == ["P1", "P10", "P2"]
    assert order.clients([f"{17:032x}", f"{2:032x}"]) == [f"{17:032x}", f"{2:032x}"]
    assert IN_ORDER.tasks(tasks("0_10", "0_2")) == tasks("0_2", "0_10")


@given(st.lists(st.integers(0, 50)))
def test_a_queue_gives_everything_in_order_while_keys_stay(items: list[int]) -> None:
    queue: PriorityQueue[int] = PriorityQueue(lambda item: item)
    for item in items:
        queue.offer(item)

    assert [queue.poll() for _ in items] == sorted(items)


@given(st.lists(st.integers(0, 50), min_size=1, unique=True), st.data())
def test_what_is_taken_out_is_gone_and_the_rest_is_in_order(items: list[int], data: st.DataObject) -> None:
    queue: PriorityQueue[int] = PriorityQueue(lambda item: item)
    for item in items:
        queue.offer(item)
    gone = data.draw(st.sampled_from(items))
    queue.remove(gone)
    queue.remove(99)

    assert [queue.poll() for _ in range(len(queue))] == sorted(set(items) - {gone})


def test_who_has_become_lighter_while_it_waits_is_found_where_it_was() -> None:
    """``ConstrainedPrioritySet``: a client is put in its place when it is offered, not when its load changes."""
    loads = {"a": 1, "b": 2, "c": 3}
    clients = LeastLoaded(loads.__getitem__, IN_ORDER)
    clients.offer(loads)
    loads["c"] = 0

    assert clients.poll(["a", "b", "c"]) == "a"
    clients.offer(["c"])
    assert clients.poll(["a", "c"]) == "c"
    assert clients.poll(["a", "c"]) is None
    assert clients.poll(["b"]) == "b"
