"""The structure of all fairest assignments: the possible sizes of each member, and the topics of its partitions.

**Theory.** Consider the possible size vectors if each partition has one of its subscribers as its member. The vectors
are the integral points of a base polyhedron. The polyhedron has a submodular bound: the members of a set S hold at most
as many partitions as have a subscriber in S. Such a set has a *least majorized* element (Tamir 1995; Frank and Murota,
*Decreasing minimization on M-convex sets*, 2018). In this element, the sum of the k largest sizes is the smallest
possible for every k at once. For sizes sorted upwards, KIP-54's score, the sum of all ``|a - b|``, is

    sum over i of (2 i - n - 1) * size_i   =   constant + 2 * sum over k of (sum of the k largest sizes)

because the total is fixed. So if one vector is majorized by another, its score is lower, unless both have the same
sorted sizes. The score is *strictly* Schur-convex, as the sum of squares is. Hence the vectors of minimal score are
exactly the least majorized vectors, and exactly the vectors with the minimal sum of squares.

**All minimizers at once.** The sum of squares makes the problem a minimum-cost flow with convex costs. Every member has
a price; at price 2 b - 1 a member may have size b - 1 or b. Take *one* optimal set of prices. Complementary slackness
describes the optimal assignments. Every partition has a subscriber of the lowest price as its member, and every member
has a size of its price. A ``Level`` is one such price. Levels do not exchange partitions, and inside a level any
assignment with sizes b - 1 and b is of minimal score.

**Finding the prices.** Give every member room for c partitions and assign as much as fits. The unassigned partitions
can reach a set U of members, all full (the smallest minimum cut). Topics on the side of U have no subscribers outside
U. So in every fairest assignment each member of U has at least c partitions, and each other member at most c. So there
are two independent problems. Each problem is split at its mean size until two neighbouring sizes are left; equal
subscriptions need two splits. Members with the same subscription are one taker here, topics with the same subscribers
one supply (Groenevelt's decomposition, 1991).
"""

from collections.abc import Mapping, Sequence

from kemu.protocol.assign.search.flow import Dealing, bits
from kemu.protocol.frozen import frozen


@frozen
class Level:
    """Members and topics that exchange partitions only with each other, at sizes ``floor`` and ``floor + 1``.

    ``members``: a bit set. ``topics``: indices, ascending.
    """

    floor: int
    members: int
    topics: tuple[int, ...]


@frozen
class _Part:
    """A sub-problem: in every fairest assignment the size of each of its members is between ``low`` and ``high``.

    ``members``: bit set with one representative per set of members with the same subscription.
    ``supplies``: sets of topics with the same subscribers, identified by the representatives of these subscribers.
    """

    members: int
    supplies: tuple[int, ...]
    low: int
    high: int


def levels(amounts: Sequence[int], subscribers: Sequence[int], alike: Mapping[int, int]) -> list[Level]:
    """Split members and topics into levels.

    Args:
        amounts: per topic, its number of partitions, above 0.
        subscribers: per topic, the bit set of its subscribers, not empty.
        alike: representative -> bit set of all members with the same subscription; every member is in exactly one set.

    Returns:
        The levels; every member and every topic is in exactly one of them.
    """
    representatives = sum(1 << member for member in alike)
    topics_of: dict[int, list[int]] = {}
    for topic, mask in enumerate(subscribers):
        topics_of.setdefault(mask & representatives, []).append(topic)
    supply = {mask: sum(amounts[topic] for topic in topics) for mask, topics in topics_of.items()}
    found: list[Level] = []
    parts = [_Part(representatives, tuple(topics_of), 0, max(sum(amounts), 1))]
    while parts:
        part = parts.pop()
        if part.high - part.low > 1:
            parts += _split(part, supply, alike)
            continue
        members = sum(alike[member] for member in bits(part.members))
        topics = sorted(topic for mask in part.supplies for topic in topics_of[mask])
        found.append(Level(part.low, members, tuple(topics)))
    return found


def _split(part: _Part, supply: Mapping[int, int], alike: Mapping[int, int]) -> list[_Part]:
    """Split a sub-problem at its mean size; a side without members is omitted."""
    amounts = [supply[mask] for mask in part.supplies]
    heads = {member: alike[member].bit_count() for member in bits(part.members)}
    size = min(max(sum(amounts) // sum(heads.values()), part.low + 1), part.high - 1)
    width = part.members.bit_length()
    room = [heads.get(member, 0) * size for member in range(width)]
    subscribers = [mask & part.members for mask in part.supplies]
    dealing = Dealing(width, part.members, amounts, subscribers, [{}] * len(amounts), room, extras=0)
    above = dealing.fill()
    is_above = dealing.reached_topics()
    upper = tuple(mask for mask, side in zip(part.supplies, is_above, strict=True) if side)
    lower = tuple(mask for mask, side in zip(part.supplies, is_above, strict=True) if not side)
    sides = [_Part(above, upper, size, part.high), _Part(part.members & ~above, lower, part.low, size)]
    assert all(side.members for side in sides if side.supplies), "a topic without a taker"
    return [side for side in sides if side.members]
