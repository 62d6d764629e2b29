"""Random groups that change step by step: members join, leave, miss a generation, or change their subscription.

The partitions that members own at a step are the assignor's answer to the previous step, in the order of the answer. So
each step after the first is drawn when the previous answer is known. The same seed and number give the same group. Ties
between members are broken by id. If two members share a bucket of Java's hash map, Kafka chooses the first member of
the JoinGroup response, and the emulator the lower id.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from lab.conformance.oracles import Json

STEPS = 5
CLIENT = "c"
"""Prefix of every member's client id."""
RACKS = "abc"
JOINS, LEAVES, GROWS, MISSES, CHANGES = 0.5, 0.4, 0.15, 0.15, 0.1
"""Probabilities of the changes in a step."""


class ChangingGroup:
    """A group; ``steps`` holds the answered steps, each with its "answer".

    In a third of all groups, members subscribe to different topics. A quarter of the groups for range has racks.
    """

    def __init__(self, assignor: str, seed: int, number: int) -> None:
        self.id = f"{assignor}-{number}"
        self.assignor = assignor
        self.steps: list[Json] = []
        self._random = random = Random(f"{assignor}/{seed}/{number}")
        self._mixed = random.random() < 0.33
        self._racked = random.random() < 0.25
        self._static = random.random() < 0.15
        self._came = 0
        names = random.sample(("t", "u", "orders", "topic-b", "a", "payments.v2"), random.choice((1, 1, 2, 3)))
        self._topics: dict[str, int] = {name: random.randint(1, 9) for name in names}
        self._replicas: dict[str, list[list[str]]] = {}
        self._members: dict[str, Json] = {}
        for _ in range(random.choice((1, 2, 2, 3, 4, 5, 7))):
            self._join()

    def next_step(self) -> Json:
        """The members' subscriptions and user data in the next rebalance."""
        number = len(self.steps)
        if number:
            self._take(self.steps[-1]["answer"], number)
            self._change()
        step: Json = {"topics": dict(self._topics)}
        if self._racked:
            step["racks"] = {name: self._racks_of(name, count) for name, count in self._topics.items()}
        step["members"] = {name: dict(self._members[name]) for name in sorted(self._members)}
        return step

    def _take(self, answer: Mapping[str, list[list[Any]]], generation: int) -> None:
        for name, member in self._members.items():
            if self._random.random() >= MISSES:
                member.update(owned=answer[name], generation=generation)

    def _change(self) -> None:
        random = self._random
        if random.random() < LEAVES and len(self._members) > 1:
            del self._members[random.choice(list(self._members))]
        if random.random() < JOINS:
            self._join()
        if random.random() < GROWS:
            self._topics[random.choice(list(self._topics))] += random.randint(1, 3)
        if random.random() < CHANGES and self._mixed:
            self._members[random.choice(list(self._members))]["topics"] = self._subscription()

    def _join(self) -> None:
        self._came += 1
        name = f"{CLIENT}{self._came}-{self._random.getrandbits(32):08x}"
        member: Json = {"topics": self._subscription(), "owned": [], "generation": -1}
        if self._racked:
            member["rack"] = self._random.choice(RACKS)
        if self._static:
            member["instance"] = f"i{self._random.getrandbits(16):04x}"
        self._members[name] = member

    def _subscription(self) -> list[str]:
        names = sorted(self._topics)
        return sorted(self._random.sample(names, self._random.randint(1, len(names)))) if self._mixed else names

    def _racks_of(self, topic: str, count: int) -> list[list[str]]:
        known = self._replicas.setdefault(topic, [])
        while len(known) < count:
            known.append(self._random.sample(RACKS, self._random.randint(1, 2)))
        return known[:count]
