"""Input and result of the sticky algorithm."""

from collections.abc import Sequence
from typing import TypeAlias

from kemu.protocol.assign.base import Assignment
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId, TopicPartition

Belongings: TypeAlias = tuple[Sequence[TopicPartition], int]
"""The partitions that a member claims to own, and the generation of the claim (-1: the member sent none)."""


@frozen
class Sharing:
    """The result of the sticky algorithm.

    ``transferring``: partition -> its new member, if another member still claims the partition and must revoke it
    first.
    """

    assignment: Assignment
    transferring: dict[TopicPartition, MemberId]
