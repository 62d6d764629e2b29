"""Random groups with the consumer protocol that change step by step: a member joins, leaves, or changes its topics, or
a topic grows.

After each change one member sends a heartbeat, in which the coordinator computes the targets. The same seed and number
give the same group.
"""

from collections.abc import Mapping
from random import Random
from uuid import UUID

from lab.conformance.oracles import Json

STEPS = 6
"""The first join, and five changes."""
NAMES = ("t", "u", "orders", "topic-b", "a", "payments.v2", "clicks", "audit")
MOST_MEMBERS = 40
CHANGES = ("join", "join", "leave", "grow", "subscribe")


class TargetedGroup:
    """A group; ``steps`` holds the changes, each with Kafka's "answer" once it is known.

    A quarter of the groups begins with many members, so that Java's hash tables grow. The members of half of the groups
    subscribe to different topics.
    """

    def __init__(self, assignor: str, seed: int, number: int) -> None:
        self.id = f"{assignor}-{number}"
        self.assignor = assignor
        self.steps: list[Json] = []
        self._random = random = Random(f"targets/{assignor}/{seed}/{number}")
        self._mixed = random.random() < 0.5
        self._static = random.random() < 0.3
        many = random.random() < 0.25
        names = random.sample(NAMES, random.randint(1, len(NAMES) if self._mixed or many else 3))
        most = 100 if random.random() < 0.1 else 24
        self._ids = {name: str(UUID(int=random.getrandbits(128), version=4)) for name in names}
        self._sizes = {name: random.randint(1, most) for name in names}
        self._members: dict[str, Json] = {}
        self._came = 0
        for _ in range(random.randint(10, MOST_MEMBERS) if many else random.randint(0, 4)):
            self._join()
        self.first = {name: dict(member) for name, member in self._members.items()}
        """The members that joined before the first step, in order, for which no target was computed."""

    def next_step(self) -> Json:
        """The next change and the group after the change."""
        change = "join" if not self.steps or not self._members else self._random.choice(CHANGES)
        if change == "leave" and len(self._members) < 2:
            change = "join"
        left, updated = "", ""
        match change:
            case "join":
                updated = self._join()
            case "leave":
                left = self._random.choice(list(self._members))
                del self._members[left]
            case "grow":
                self._sizes[self._random.choice(list(self._sizes))] += self._random.randint(1, 12)
            case "subscribe":
                updated = self._random.choice(list(self._members))
                self._members[updated]["topics"] = self._subscription()
        return {
            "change": change,
            "left": left,
            "updated": updated or self._random.choice(list(self._members)),
            "topics": {name: [self._ids[name], count] for name, count in self._sizes.items()},
            "members": {name: dict(member) for name, member in self._members.items()},
        }

    def history(self, left: str) -> list[str]:
        """The joins (+) and removals (-) before a step in which this member left."""
        history = [f"+{name}" for name in self.first]
        for step in self.steps:
            history += [f"-{step['left']}"] if step["left"] else []
            history += [f"+{step['updated']}"] if step["change"] == "join" else []
        return [*history, f"-{left}"] if left else history

    def targets(self) -> dict[str, str]:
        """The coordinator's targets after the last step."""
        stored: dict[str, str] = {}
        for step in self.steps:
            stored = stored_targets(stored, step["answer"])
        return stored

    def _join(self) -> str:
        self._came += 1
        name = str(UUID(int=self._random.getrandbits(128), version=4))
        instance = f"i{self._random.getrandbits(16):04x}" if self._static and self._random.random() < 0.6 else ""
        while instance and any(instance == member["instance"] for member in self._members.values()):
            instance = f"i{self._random.getrandbits(16):04x}"
        self._members[name] = {"topics": self._subscription(), "instance": instance}
        return name

    def _subscription(self) -> list[str]:
        names = sorted(self._sizes)
        return sorted(self._random.sample(names, self._random.randint(1, len(names)))) if self._mixed else names


def stored_targets(before: Mapping[str, str], answer: Mapping[str, str]) -> dict[str, str]:
    """The targets after an answer: the coordinator keeps a target, with its order, if no partition changes.

    Source: ``TargetAssignmentBuilder.build`` 4.0.1.
    """
    return {
        name: before[name] if name in before and shares(before[name]) == shares(text) else text
        for name, text in answer.items()
    }


def shares(text: str) -> dict[str, set[int]]:
    """The partitions by topic id of a target."""
    return {topic: set(numbers) for topic, numbers in share_of(text).items()}


def share_of(text: str) -> dict[str, tuple[int, ...]]:
    """A target in the format of the Java program, in its order."""
    rows = [each.split(":") for each in text.split(",") if each]
    return {topic: tuple(map(int, numbers.split("."))) for topic, numbers in rows}
