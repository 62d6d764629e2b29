"""What the sticky algorithm is told and what it decides."""

from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from kemu.protocol.assign.base import Assignment
from kemu.protocol.names import MemberId, TopicPartition

Belongings: TypeAlias = tuple[Sequence[TopicPartition], int]
"""What a member claims to own, and since which generation (-1: it does not say)."""


@frozen
class Sharing:
    """What the sticky algorithm decided.

    ``transferring``: partition -> its new member, where another member still claims it and so has to give it up first.
    """

    assignment: Assignment
    transferring: dict[TopicPartition, MemberId]
