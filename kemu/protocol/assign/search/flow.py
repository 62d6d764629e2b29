"""Minimum-cost assignment of partitions to members, for the ``optimal`` assignor.

**The network.** Supplies are topics (or other groups of interchangeable partitions), takers are members. A unit of flow
is one partition. Keeping a partition costs 0; the number of partitions that the member owned of the topic is the limit.
Any other assignment of a partition costs 1 and is unlimited. So arcs have counts, and no node stands for a single
partition. The cost of a finished flow is the number of partitions that their owners do not keep. A member must take
``floor`` units; ``extras`` members (chosen by the algorithm) take one more.

**The method** is the primal-dual one for minimum-cost flow (Ford and Fulkerson 1962; Ahuja, Magnanti, Orlin, *Network
Flows*, 9.8). The method starts from the pseudo-flow in which every claim is kept. This flow costs 0, and all residual
arcs cost 0 or 1. Hence potentials of 0 are valid: no residual arc has a negative reduced cost ``cost + here - there``.
The sources are members above their limit and topics with unowned partitions. The algorithm sends flow along arcs of
reduced cost 0 while the sources can reach a sink (Dinic's blocking flows). If no sink can be reached, the potential of
every node *not* reached rises by 1. Costs are whole numbers, so all reduced costs stay at 0 or above. A flow without
negative reduced costs is of minimum cost. The potential of the sink is the price of the current path. A path changes
each member at most once. So the price never exceeds the number of members, and the loop ends.

**Speed in Python.** Sets of members are bit sets in one int. So the set "subscribers of this topic, not yet reached,
with this potential" needs two ``&``. Each search visits a member once, however many arcs lead to the member.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

UNLIMITED = 1 << 62
"""The capacity of the arc from a topic to any subscriber: more than any flow needs."""


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones in ``mask``, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Dealing:
    """A flow in progress. Members are bit positions below ``width``, topics are list indices.

    Args:
        width: one more than the highest member; members outside ``takers`` do not take part.
        takers: bit set of the members that take part.
        amounts: per topic, its number of partitions.
        subscribers: per topic, the bit set of members that may take its partitions; a subset of ``takers``.
        owned: per topic, member -> the number of its partitions that the member owns (above 0, subscribers only).
        floor: per member, the least number of its partitions; not negative.
        extras: the number of members that take one more than their floor.
    """

    def __init__(
        self,
        width: int,
        takers: int,
        amounts: Sequence[int],
        subscribers: Sequence[int],
        owned: Sequence[Mapping[int, int]],
        floor: Sequence[int],
        extras: int,
    ) -> None:
        self.width = width
        self.subscribers = subscribers
        self.extras = extras
        self.extra_holders = 0
        """Bit set of the members that have one more than their floor."""
        self.kept: list[dict[int, int]] = [{} for _ in range(width)]
        """Per member: topic -> number of partitions that the member keeps."""
        self.given: list[dict[int, int]] = [{} for _ in range(width)]
        """Per member: topic -> number of partitions assigned to the member at cost 1."""
        self.left: list[dict[int, int]] = [{} for _ in amounts]
        """Per topic: member -> number of lost partitions, which the member may take back at cost 0."""
        self.supply = list(amounts)
        load = [0] * width
        for topic, owners in enumerate(owned):
            for member, count in owners.items():
                self.kept[member][topic] = count
                load[member] += count
                self.supply[topic] -= count
            assert self.supply[topic] >= 0, "more partitions owned than there are"
        self.excess = [0] * width
        self.room = [0] * width
        for member in bits(takers):
            self.room[member] = max(floor[member] - load[member], 0)
            self.excess[member] = max(load[member] - floor[member], 0)
        # Potentials. The node numbers are: members, the pool of extras, topics.
        self.pool = width
        self.potential = [0] * (width + 1 + len(amounts))
        self.members_at = {0: takers}
        """Potential -> bit set of the takers that have it."""
        self.sink_potential = 0
        self.hop: list[int] = []
        self.reached_at: list[int] = []
        self.arcs: dict[int, list[int]] = {}

    def settle(self) -> None:
        """Run until all partitions are assigned. The flow is then of minimum cost.

        A feasible flow must exist; the caller has checked it (``optimal`` by its levels).
        """
        while self._sources():
            if self._layers():
                self._block()
            else:
                assert self.sink_potential <= self.width, "no feasible flow"
                self._raise_potentials()

    def fill(self) -> int:
        """Assign as much as fits, regardless of cost; returns the bit set of members that unassigned partitions could
        reach.

        The method is for a network without owners. Every path costs 1 there, so two prices are enough. ``supply`` holds
        the unassigned partitions. The returned members are all full; with the reached topics they are the smallest
        minimum cut.
        """
        while self.sink_potential <= 1:
            while self._layers():
                self._block()
            self._raise_potentials()
        return sum(self.reached_at)

    def reached_topics(self) -> list[bool]:
        """Per topic whether the topic was on the side of the sources when the last search ended."""
        return [hop >= 0 for hop in self.hop[self.width + 1 :]]

    def _sources(self) -> bool:
        return any(self.supply) or any(self.excess)

    # Searching

    def _layers(self) -> bool:
        """Number the nodes by hops from the sources over arcs of reduced cost 0; returns whether the search found a
        sink.
        """
        first_topic = self.width + 1
        self.hop = [-1] * len(self.potential)
        self.reached_at = []
        self.arcs = {}
        unseen = 0
        for mask in self.members_at.values():
            unseen |= mask
        members = sum(1 << member for member, count in enumerate(self.excess) if count)
        others = [first_topic + topic for topic, count in enumerate(self.supply) if count]
        hop = 0
        while members or others:
            unseen &= ~members
            self.reached_at.append(members)
            for node in others:
                self.hop[node] = hop
            for member in bits(members):
                self.hop[member] = hop
            if self._sinks(members, others, hop):
                return True
            members, others = self._next_layer(members, others, unseen)
            hop += 1
        return False

    def _sinks(self, members: int, others: Sequence[int], hop: int) -> bool:
        """Whether a node of this layer has an arc to the sink. Nodes without such an arc leave the layer if another
        node has one.
        """
        sinks = 0
        for member in bits(members & self.members_at.get(self.sink_potential, 0)):
            if self.room[member]:
                sinks |= 1 << member
        pool = self.hop[self.pool] == hop and self._pool_has_room()
        if not sinks and not pool:
            return False
        self.reached_at[-1] = sinks
        for node in others:
            if node != self.pool or not pool:
                self.hop[node] = -1
        return True

    def _pool_has_room(self) -> bool:
        return self.potential[self.pool] == self.sink_potential and self.extra_holders.bit_count() < self.extras

    def _next_layer(self, members: int, others: Sequence[int], unseen: int) -> tuple[int, list[int]]:
        hop, potential, first_topic = self.hop, self.potential, self.width + 1
        found = 0
        for node in others:
            here = potential[node]
            if node == self.pool:
                found |= self.extra_holders & self.members_at.get(here, 0)
                continue
            topic = node - first_topic
            found |= self.subscribers[topic] & self.members_at.get(here + 1, 0)
            for member in self.left[topic]:
                if potential[member] == here:
                    found |= 1 << member
        found &= unseen
        nodes: list[int] = []
        for member in bits(members):
            for node in self._ways_out(member):
                if hop[node] < 0:
                    hop[node] = hop[member] + 1
                    nodes.append(node)
        return found, nodes

    def _ways_out(self, member: int) -> Iterator[int]:
        """The topics to which this member can return a partition, and the pool, over arcs of reduced cost 0."""
        potential, first_topic = self.potential, self.width + 1
        here = potential[member]
        for topic in self.kept[member]:
            if potential[first_topic + topic] == here:
                yield first_topic + topic
        for topic in self.given[member]:
            if potential[first_topic + topic] == here - 1:
                yield first_topic + topic
        if self.extras and potential[self.pool] == here and not self.extra_holders >> member & 1:
            yield self.pool

    def _raise_potentials(self) -> None:
        """Raise the potential of every node not reached by 1, after a search without a sink."""
        reached = sum(self.reached_at)
        raised: dict[int, int] = {}
        for value, mask in self.members_at.items():
            raised[value] = raised.get(value, 0) | mask & reached
            raised[value + 1] = raised.get(value + 1, 0) | mask & ~reached
        self.members_at = {value: mask for value, mask in raised.items() if mask}
        for value, mask in self.members_at.items():
            for member in bits(mask):
                self.potential[member] = value
        for node in range(self.width, len(self.potential)):
            if self.hop[node] < 0:
                self.potential[node] += 1
        self.sink_potential += 1

    # Sending

    def _block(self) -> None:
        """Send flow along layered paths until each path is blocked. A dead end is removed from its layer."""
        first_topic = self.width + 1
        for member in bits(self.reached_at[0]):
            while self.excess[member] and self.hop[member] == 0 and self._send(member):
                pass
        for topic in range(len(self.supply)):
            while self.supply[topic] and self.hop[first_topic + topic] == 0 and self._send(first_topic + topic):
                pass

    def _send(self, source: int) -> bool:
        """Send as much flow as one path from ``source`` can take; False without a path."""
        last = len(self.reached_at) - 1
        path = [source]
        while path:
            node = path[-1]
            if len(path) - 1 == last:
                amount = self._sink_room(node)
                if amount:
                    self._push(path, amount)
                    return True
                onward = -1
            else:
                onward = self._onward(node)
            if onward < 0:
                self._drop(path.pop())
            else:
                path.append(onward)
        return False

    def _drop(self, node: int) -> None:
        if node < self.width:
            self.reached_at[self.hop[node]] &= ~(1 << node)
        self.hop[node] = -1

    def _sink_room(self, node: int) -> int:
        if node < self.width:
            return self.room[node]
        return int(node == self.pool and self.extra_holders.bit_count() < self.extras)

    def _onward(self, node: int) -> int:
        """A node of the next layer to which ``node`` has an open arc, or -1."""
        after = self.hop[node] + 1
        if node < self.width:
            return self._listed(node, after)
        members = self.reached_at[after]
        here = self.potential[node]
        if node == self.pool:
            members &= self.extra_holders & self.members_at.get(here, 0)
        else:
            members &= self.subscribers[node - self.width - 1] & self.members_at.get(here + 1, 0)
        if members:
            return (members & -members).bit_length() - 1
        return -1 if node == self.pool else self._listed(node, after)

    def _listed(self, node: int, after: int) -> int:
        """Like ``_onward`` for arcs that can fill up: each search builds the list once, and the list only shrinks."""
        ways = self.arcs.get(node)
        if ways is None:
            if node < self.width:
                ways = [way for way in self._ways_out(node) if self.hop[way] == after]
            else:
                here, left = self.potential[node], self.left[node - self.width - 1]
                ways = [way for way in left if self.hop[way] == after and self.potential[way] == here]
            ways.reverse()
            self.arcs[node] = ways
        while ways:
            if self.hop[ways[-1]] == after and self._open(node, ways[-1]):
                return ways[-1]
            ways.pop()
        return -1

    def _open(self, node: int, onward: int) -> int:
        """The remaining capacity of the arc. The potentials distinguish two parallel arcs."""
        first_topic = self.width + 1
        if node < self.width:
            if onward == self.pool:
                return 1 - (self.extra_holders >> node & 1)
            same = self.potential[onward] == self.potential[node]
            return (self.kept if same else self.given)[node].get(onward - first_topic, 0)
        if node == self.pool:
            return self.extra_holders >> onward & 1
        if self.potential[onward] == self.potential[node]:
            return self.left[node - first_topic].get(onward, 0)
        return UNLIMITED

    def _push(self, path: Sequence[int], amount: int) -> None:
        first_topic = self.width + 1
        source, sink = path[0], path[-1]
        steps = list(pairwise(path))
        amount = min(amount, self.excess[source] if source < self.width else self.supply[source - first_topic])
        for node, onward in steps:
            amount = min(amount, self._open(node, onward))
        assert amount > 0
        for node, onward in steps:
            self._shift(node, onward, amount)
        if source < self.width:
            self.excess[source] -= amount
        else:
            self.supply[source - first_topic] -= amount
        if sink != self.pool:
            self.room[sink] -= amount

    def _shift(self, node: int, onward: int, amount: int) -> None:
        first_topic = self.width + 1
        if self.pool in (node, onward):
            self.extra_holders ^= 1 << min(node, onward)
        elif node < self.width:
            topic = onward - first_topic
            if self.potential[node] == self.potential[onward]:
                _add(self.kept[node], topic, -amount)
                _add(self.left[topic], node, amount)
            else:
                _add(self.given[node], topic, -amount)
        elif self.potential[node] == self.potential[onward]:
            topic = node - first_topic
            _add(self.left[topic], onward, -amount)
            _add(self.kept[onward], topic, amount)
        else:
            _add(self.given[onward], node - first_topic, amount)


def _add(counts: dict[int, int], key: int, amount: int) -> None:
    """Add to a count, and delete a count of 0. Keys are in the order in which their counts last left 0."""
    total = counts.get(key, 0) + amount
    assert total >= 0
    if total:
        counts[key] = total
    else:
        del counts[key]
