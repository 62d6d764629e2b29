"""The version of each API that a client uses: the differences between Kafka releases on the wire.

A profile selects older versions (``LATEST.but(JoinGroup=3)``). Machines understand every declared version; the brokers
of a release support the versions of the release's clients.
"""

from collections.abc import Mapping

from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.messages import control, data, group
from kemu.protocol.messages.member import HIGHEST_VERSION
from kemu.protocol.wire.codec import UnsupportedVersion
from kemu.protocol.wire.schema import MESSAGES, SPECS


@frozen
class SpokenVersions:
    """Kafka's API name -> the version to send; ``subscription``: the version of the consumer protocol's bytes.

    ``negotiates``: brokers are of several releases, so that clients request the versions of each broker
    (``ApiVersions``) and send no higher versions. If all brokers are of one release, clients send no such request.
    """

    requests: Mapping[str, int]
    subscription: int = HIGHEST_VERSION
    negotiates: bool = False

    def __getitem__(self, api: str) -> int:
        return self.requests[api]

    def but(self, *, subscription: int | None = None, **requests: int) -> "SpokenVersions":
        """The same table with other versions of some APIs, by Kafka's name: ``but(JoinGroup=3, subscription=1)``.

        Raises:
            UnsupportedVersion: the API is unknown, or has no such version.
        """
        for api, version in requests.items():
            declared = _declared(api)
            if version not in declared:
                raise UnsupportedVersion(f"{api} v{version}: supported are v{declared[0]} to v{declared[-1]}")
        if subscription is not None and not 0 <= subscription <= HIGHEST_VERSION:
            raise UnsupportedVersion(f"subscription v{subscription}: supported are v0 to v{HIGHEST_VERSION}")
        return evolve(
            self,
            requests={**self.requests, **requests},
            subscription=self.subscription if subscription is None else subscription,
        )

    def among(self, brokers: "SpokenVersions") -> "SpokenVersions":
        """The versions to use with brokers that support at most those of ``brokers``."""
        spoken = {api: min(version, brokers.requests.get(api, version)) for api, version in self.requests.items()}
        return evolve(self, requests=spoken)

    def asking(self) -> "SpokenVersions":
        """The same table, but clients first request the versions of each broker."""
        return evolve(self, negotiates=True)


def _declared(api: str) -> range:
    for spec in MESSAGES.values():
        if spec.name == api:
            return spec.versions
    raise UnsupportedVersion(f"no API is called {api!r}")


_OF_RELEASES: tuple[type, ...] = (
    data.Produce, data.Fetch, data.ListOffsets, data.Metadata, group.OffsetCommit, group.OffsetFetch,
    group.FindCoordinator, group.JoinGroup, group.Heartbeat, group.LeaveGroup, group.SyncGroup,
    control.OffsetForLeaderEpoch,
)  # fmt: skip
"""The requests whose versions differ between the clients of different releases."""

LATEST = SpokenVersions({api.__name__: SPECS[api].versions[-1] for api in _OF_RELEASES}).but(
    Fetch=data.REPLICA_FETCH_VERSION - 1, OffsetCommit=9, OffsetFetch=7, Metadata=data.TOPIC_IDS_SINCE - 1
)
"""The versions of Kafka 3.9 clients: the newest declared versions, except the version of Fetch that only followers
send, and of Metadata that has topic ids.

FindCoordinator is declared up to the last version without batches, and classic members send the last such version of
OffsetFetch.
"""

KAFKA_4_2 = LATEST.but(OffsetCommit=group.OFFSET_TOPIC_IDS_SINCE, OffsetFetch=group.OFFSET_TOPIC_IDS_SINCE)
"""The versions of Kafka 4.2 clients and brokers: members of the consumer protocol name topics by id. Version 10 is
unstable in 4.1.
"""

KAFKA_3_4 = SpokenVersions(
    {
        "Produce": 9,
        "Fetch": 13,
        "ListOffsets": 7,
        "Metadata": 12,
        "OffsetCommit": 8,
        "OffsetFetch": 7,
        "FindCoordinator": 3,
        "JoinGroup": 9,
        "Heartbeat": 4,
        "LeaveGroup": 5,
        "SyncGroup": 5,
        "OffsetForLeaderEpoch": 4,
    }
)
"""The versions of Kafka 3.4 clients: subscription v3 (KIP-792's generation, KIP-881's rack)."""

KAFKA_2_4 = KAFKA_3_4.but(
    Produce=8,
    Fetch=11,
    ListOffsets=5,
    Metadata=9,
    OffsetCommit=8,
    OffsetFetch=6,
    JoinGroup=6,
    SyncGroup=4,
    LeaveGroup=4,
    OffsetForLeaderEpoch=3,
    subscription=1,
)
"""The versions of Kafka 2.4 clients: subscription v1 (KIP-429's owned partitions, no generation)."""

KAFKA_2_6 = KAFKA_2_4.but(OffsetFetch=7, JoinGroup=7, SyncGroup=5)
"""The versions of Kafka 2.6 clients: still subscription v1."""

KAFKA_2_3 = KAFKA_2_4.but(
    Produce=7,
    Metadata=8,
    OffsetCommit=7,
    OffsetFetch=5,
    FindCoordinator=2,
    JoinGroup=5,
    SyncGroup=3,
    Heartbeat=3,
    LeaveGroup=2,
    subscription=0,
)
"""The versions of Kafka 2.3 clients, the release for which KIP-429's page was written."""

KAFKA_2_8 = KAFKA_2_6.but(Produce=9, Fetch=12, ListOffsets=6, Metadata=11, OffsetForLeaderEpoch=4)
"""The versions of Kafka 2.8 clients: still subscription v1."""

KAFKA_3_7 = KAFKA_3_4.but(Produce=10, Fetch=16, ListOffsets=8, OffsetCommit=9)
"""The versions of Kafka 3.7 clients."""

KAFKA_3_0 = KAFKA_2_8.but(ListOffsets=7)
"""The versions of Kafka 3.0 clients: still subscription v1."""
