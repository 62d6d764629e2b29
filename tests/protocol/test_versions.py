"""The table of versions a client speaks."""

import pytest

from kemu.protocol.messages import group
from kemu.protocol.messages.versions import LATEST
from kemu.protocol.wire.codec import UnsupportedVersion
from kemu.protocol.wire.schema import MESSAGES, Kind


def test_every_version_of_the_table_is_declared_and_the_group_protocol_speaks_its_last() -> None:
    """Kafka's clients send the highest version both sides know."""
    declared = {spec.name: spec.versions for (_, kind), spec in MESSAGES.items() if kind is Kind.REQUEST}
    assert all(version in declared[api] for api, version in LATEST.requests.items())
    protocol = (group.FindCoordinator, group.JoinGroup, group.SyncGroup, group.Heartbeat, group.LeaveGroup)
    for message in protocol:
        assert LATEST[message.__name__] == declared[message.__name__][-1]


def test_a_profile_picks_older_versions_and_leaves_the_others() -> None:
    """A release is a table; the table it is made from stays as it is."""
    old = LATEST.but(JoinGroup=3, subscription=1)
    assert (old["JoinGroup"], old["SyncGroup"], old.subscription) == (3, LATEST["SyncGroup"], 1)
    assert (LATEST["JoinGroup"], LATEST.subscription) == (9, 3)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"JoinGroup": 99}, "JoinGroup v99: supported are v0 to v9"),
        ({"JoinUs": 1}, "no API is called 'JoinUs'"),
        ({"subscription": 4}, "subscription v4: supported are v0 to v3"),
    ],
)
def test_a_version_that_does_not_exist_is_refused(wrong: dict[str, int], text: str) -> None:
    """One clear error."""
    with pytest.raises(UnsupportedVersion, match=text):
        LATEST.but(**wrong)
