"""The iteration order of a coordinator's hash maps. The order determines the next leader, the leader's list of members,
and the result of a tied vote.

Member ids end in random digits, so the order of members is random. The order of protocols is always the same. Java's
tree bins are not emulated; they need more than eight ids in one bin of a table with at least 64 bins.

Source: Scala 2.13's ``mutable.HashMap``, ``immutable.HashMap`` (``Hashing.improve``), OpenJDK's ``HashMap``.
"""

from collections.abc import Collection, Iterable
from enum import Enum

from kemu.protocol.names import MemberId, java_string_hash

_INT = (1 << 32) - 1
_LEAST_TABLE = 16
_TRIE_BITS = 5
_TRIE_DEPTH = 7


class HashMaps(Enum):
    """The map implementation of a coordinator."""

    SCALA = "scala.collection"
    """``mutable.HashMap``: a bin is ordered by hash; the table grows before the twelfth of sixteen places is taken."""
    JAVA = "java.util"
    """``HashMap``: a bin is ordered by arrival; the table grows after the twelfth of sixteen places was taken."""


class MemberTable:
    """The size of a group's member table, which never decreases, and the order of ids in it."""

    __slots__ = ("_capacity", "_maps")

    def __init__(self, maps: HashMaps) -> None:
        self._maps = maps
        self._capacity = _LEAST_TABLE

    def put(self, size: int) -> None:
        """Add an id to a table with ``size`` other ids."""
        most = self._capacity * 3 // 4
        if size + 1 >= most if self._maps is HashMaps.SCALA else size + 1 > most:
            self._capacity *= 2

    def ordered(self, ids: Iterable[MemberId]) -> list[MemberId]:
        """The ids in the map's order; the argument has the ids in order of arrival."""
        if self._maps is HashMaps.JAVA:
            return sorted(ids, key=lambda each: _spread(each) & (self._capacity - 1))
        return sorted(ids, key=self._scala_place)

    def _scala_place(self, member_id: MemberId) -> tuple[int, int]:
        spread = _spread(member_id)
        return spread & (self._capacity - 1), spread - (1 << 32) if spread >> 31 else spread


def vote_order(maps: HashMaps, names: Collection[str]) -> list[str]:
    """The order in which votes for protocols are counted; the group uses the first protocol with the most votes."""
    if maps is HashMaps.JAVA:
        table = MemberTable(maps)
        for size in range(len(names)):
            table.put(size)
        return table.ordered(names)
    return _trie_order([(_improved(name), name) for name in names], 0)


def _spread(text: str) -> int:
    code = java_string_hash(text) & _INT
    return code ^ code >> 16


def _improved(text: str) -> int:
    code = java_string_hash(text) & _INT
    code = (code + (~(code << 9) & _INT)) & _INT
    code ^= code >> 14
    code = (code + (code << 4)) & _INT
    return code ^ code >> 10


def _trie_order(entries: list[tuple[int, str]], depth: int) -> list[str]:
    """The entries in the order of an immutable trie: single entries of a level, then the level's subtrees."""
    if depth == _TRIE_DEPTH:
        return [name for _, name in entries]
    places: dict[int, list[tuple[int, str]]] = {}
    for code, name in entries:
        places.setdefault(code >> _TRIE_BITS * depth & ((1 << _TRIE_BITS) - 1), []).append((code, name))
    order = sorted(places)
    alone = [places[place][0][1] for place in order if len(places[place]) == 1]
    deeper = [_trie_order(places[place], depth + 1) for place in order if len(places[place]) > 1]
    return alone + [name for names in deeper for name in names]
