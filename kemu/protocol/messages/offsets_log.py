"""Messages between a broker and its group coordinator: about the log of a partition of ``__consumer_offsets``, and
about the topics of the cluster.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct


@message(api_key=112, kind=REQUEST, versions=range(0, 1))
class LeadGroups:
    """Broker -> coordinator: this broker leads the partition of ``__consumer_offsets``, with this log.

    Source: Kafka's ``onElection``. The log is read to its end, not to the high watermark.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]


@message(api_key=112, kind=REPLY, versions=range(0, 1))
class LeadGroupsReply:
    """The coordinator has received LeadGroups."""


@message(api_key=113, kind=REQUEST, versions=range(0, 1))
class ResignGroups:
    """Broker -> coordinator: this broker does not lead the partition of ``__consumer_offsets``, as of this epoch."""

    partition: int
    leader_epoch: int


@message(api_key=113, kind=REPLY, versions=range(0, 1))
class ResignGroupsReply:
    """The coordinator has received ResignGroups."""


@message(api_key=114, kind=REQUEST, versions=range(0, 2))
class AppendGroups:
    """Coordinator -> broker: append these records as one batch, and reply when all in-sync replicas have them.

    ``leader_epoch``: the coordinator's epoch of the partition; the answer to an older epoch is NOT_LEADER_OR_FOLLOWER.
    ``required_acks`` -1: a producer's acks=all, with ``min.insync.replicas`` and ``offsets.commit.timeout.ms``.
    ``required_acks`` 1: neither setting applies, and the broker replies when the high watermark has passed the records.
    """

    partition: int
    leader_epoch: int
    records: tuple[tuple[bytes, bytes | None], ...]
    required_acks: int = since(1, default=-1)


@message(api_key=114, kind=REPLY, versions=range(0, 2))
class AppendGroupsReply:
    """NONE and the first record's offset, or an error.

    After an indefinite error (``ErrorCode.definite``) the log may contain the records.
    """

    error: ErrorCode
    base_offset: int


@struct
class KnownTopic:
    """A topic in the broker's metadata.

    ``racks``: per partition the racks of its replicas, sorted; empty without racks.
    """

    name: str
    topic_id: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


@message(api_key=119, kind=REQUEST, versions=range(0, 1))
class GroupTopics:
    """Broker -> coordinator: the topics of the cluster, for groups whose coordinator assigns the partitions (KIP-848).

    Source: ``GroupCoordinator.onNewMetadataImage``.
    """

    topics: tuple[KnownTopic, ...]


@message(api_key=119, kind=REPLY, versions=range(0, 1))
class GroupTopicsReply:
    """The coordinator has received GroupTopics."""
