"""The structure of all fairest assignments: the sizes each member may have, and the topics it may take from.

**Theory.** Consider the possible size vectors, where each partition with subscribers goes to one of them. The vectors
are the integral points of a base polyhedron: members of a set S hold at most as many partitions as have a subscriber in
S, a submodular bound. Such a set has a *least majorized* element (Tamir 1995; Frank and Murota, *Decreasing
minimization on M-convex sets*, 2018): sorted downwards, the sum of its k largest sizes is the smallest possible for
every k at once. For sizes sorted upwards, KIP-54's score, the sum of all ``|a - b|``, is

    sum over i of (2 i - n - 1) * size_i   =   constant + 2 * sum over k of (sum of the k largest sizes)

because the total is fixed. So a vector that is majorized by another scores lower unless both have the same sorted
sizes:
the score is *strictly* Schur-convex, as the sum of squares is. Hence its minimizers are exactly the least majorized
vectors, which are exactly the minimizers of the sum of squares. There are no further ties to consider.

**All minimizers at once.** The sum of squares makes this a minimum-cost flow with convex costs. Every member has a
price; it may have size b - 1 or b at price 2 b - 1. Take *one* optimal set of prices. By complementary slackness,
exactly those assignments are optimal in which every partition goes to a subscriber of the lowest price and every member
has a size of its price. A ``Level`` is one such price: levels do not exchange partitions, and inside a level any
assignment with sizes b - 1 and b is of minimal score.

**Finding the prices.** Give every member room for c partitions and assign as much as fits. The rest can reach a set U
of members, all full (the smallest minimum cut). Topics on that side have no subscribers outside U, so in every fairest
assignment U holds at least c each and the others at most c each: two independent problems. Each is split at the mean,
which takes two steps for even subscriptions, until two neighbouring sizes are left. Members with the same subscription
are one taker here, topics with the same subscribers one supply (Groenevelt's decomposition, 1991).
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
    """A sub-problem: each of its members has a size from ``low`` to ``high`` in every fairest assignment.

    ``members``: bit set with one representative per set of alike members.
    ``supplies``: sets of topics with the same subscribers, identified by those subscribers' representatives.
    """

    members: int
    supplies: tuple[int, ...]
    low: int
    high: int


def levels(amounts: Sequence[int], subscribers: Sequence[int], alike: Mapping[int, int]) -> list[Level]:
    """Split members and topics into levels.

    Args:
        amounts: per topic, its number of partitions, above 0.
        subscribers: per topic, the bit set of the members that subscribe to it, not empty.
        alike: representative -> bit set of all members with its subscription, itself included; every member is in one.

    Returns:
        Every member and every topic in exactly one level.
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
    """One cut at the mean size; sides without members are omitted."""
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
