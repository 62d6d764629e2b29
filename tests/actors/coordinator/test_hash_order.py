"""Iteration orders of hash maps, compared with those of Scala 2.13.10's and OpenJDK 17's own classes."""

import pytest

from kemu.actors.coordinator.hash_order import HashMaps, MemberTable, vote_order
from tests.actors.coordinator.coordinator_harness import REBALANCE_MS, Bench

MUTABLE = {
    (HashMaps.SCALA, 12): (0, 7, 9, 5, 8, 10, 3, 11, 2, 6, 1, 4),
    (HashMaps.SCALA, 13): (0, 7, 9, 5, 8, 10, 3, 11, 2, 6, 1, 4, 12),
    (HashMaps.SCALA, 24): (21, 0, 9, 23, 13, 20, 5, 8, 15, 3, 11, 6, 1, 4, 12, 16, 18, 14, 7, 10, 2, 19, 22, 17),
    (HashMaps.JAVA, 12): (3, 10, 11, 0, 2, 6, 1, 4, 7, 9, 5, 8),
    (HashMaps.JAVA, 13): (0, 7, 9, 5, 8, 3, 10, 11, 2, 6, 1, 4, 12),
    (HashMaps.JAVA, 24): (21, 0, 7, 9, 13, 23, 5, 8, 20, 15, 3, 10, 11, 2, 6, 1, 4, 12, 16, 19, 18, 22, 14, 17),
}
"""Maps and size -> the map's order of keys that were inserted by number."""
TRIE = {
    12: (2, 10, 5, 8, 0, 1, 6, 3, 7, 9, 4, 11),
    13: (2, 12, 10, 5, 8, 0, 1, 6, 3, 7, 9, 4, 11),
    24: (23, 12, 5, 8, 19, 0, 1, 14, 16, 6, 3, 7, 9, 20, 4, 11, 22, 2, 18, 13, 21, 15, 10, 17),
}


def keys(size: int) -> list[str]:
    """The keys inserted into the real maps."""
    return [f"c{number % 7}-id-{number * number * 31}" for number in range(size)]


@pytest.mark.parametrize(("maps", "size"), MUTABLE, ids=str)
def test_members_are_listed_as_the_real_map_lists_them(maps: HashMaps, size: int) -> None:
    """mutable.HashMap.put0 and growTable; HashMap.putVal and resize: one grows a place earlier than the other."""
    table = MemberTable(maps)
    for number in range(size):
        table.put(number)

    assert table.ordered(keys(size)) == [keys(size)[number] for number in MUTABLE[maps, size]]


@pytest.mark.parametrize("size", TRIE)
def test_votes_are_listed_as_scalas_immutable_map_lists_them(size: int) -> None:
    """IterableOps.groupBy makes an immutable.HashMap: a trie of five bits a level, what stands alone first."""
    assert vote_order(HashMaps.SCALA, keys(size)) == [keys(size)[number] for number in TRIE[size]]


def test_a_table_that_grew_keeps_its_size() -> None:
    """Neither map shrinks when members leave."""
    grown, fresh = MemberTable(HashMaps.JAVA), MemberTable(HashMaps.JAVA)
    for number in range(13):
        grown.put(number)

    assert grown.ordered(keys(12)) != fresh.ordered(keys(12))


@pytest.mark.parametrize("kind", ["scala", "java"])
def test_the_map_says_who_leads_after_a_leader_that_did_not_rejoin(kind: str) -> None:
    """GroupMetadata.remove (members.keys.headOption), maybeElectNewJoinedLeader (members.find)."""
    bench = Bench(coordinator_kind=kind)
    clients = [f"c{number}" for number in range(1, 9)]
    formed = bench.stable_group(*clients, session_ms=REBALANCE_MS)
    joins = [bench.join(client, formed.ids[client], names=("range", "sticky")) for client in clients[1:]]
    order = [each for each in bench.group.members.hashed() if each != formed.ids["c1"]]
    bench.advance(REBALANCE_MS)

    leaders = {join.reply.leader for join in joins}
    assert leaders == {order[0]} != {formed.ids["c2"]}
    leader = next(join.reply for join in joins if join.reply.members)
    assert [member.member_id for member in leader.members] == order
