"""Assignors that are not the same in every process: what the watch over sweeps is there to find."""

import os
import sys
from collections.abc import Mapping
from typing import ClassVar

from kemu.protocol.assign.base import Assignment, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.names import MemberId, TopicPartition


class ByHash:
    """Gives partitions out in the order of their hashes, which every process salts otherwise."""

    name = "by-hash"
    version = 0
    protocols: ClassVar = (RebalanceProtocol.EAGER,)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """One to each in turn."""
        names = sorted({topic for one in members.values() for topic in one.topics})
        everything: list[TopicPartition] = [(name, n) for name in names for n in range(topics.partitions[name])]
        assignment: Assignment = {member: [] for member in members}
        for turn, partition in enumerate(sorted(everything, key=lambda at: hash(f"{at}"))):
            assignment[list(members)[turn % len(members)]].append(partition)
        return assignment


class BreaksElsewhere(ByHash):
    """Works in this process alone."""

    name = "breaks-elsewhere"

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Leave the process, unless it is the one that runs the tests."""
        if "pytest" not in sys.modules:
            sys.stderr.write("out of memory, say\n")
            sys.stderr.flush()
            os._exit(1)
        return super().assign(topics, members)
