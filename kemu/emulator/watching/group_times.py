"""The longest times that the settings of a scenario allow the members of a group."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.text.kafka_keys import configured
from kemu.protocol.config import BrokerConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.dynamic_configs import CONSUMER_ASSIGNMENT_INTERVAL, CONSUMER_HEARTBEAT_INTERVAL
from kemu.protocol.frozen import frozen
from kemu.protocol.names import GroupId

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario

_DRAWS = (
    DrawName.HAND_OVER,
    DrawName.FOLLOWER_SYNC,
    DrawName.REJOIN_NOTICE,
    DrawName.FIRST_ID,
    DrawName.FIRST_TURN,
    DrawName.FIRST_JOIN,
    DrawName.GROUP_LOAD,
    DrawName.OFFSETS_LOAD,
    DrawName.CALLBACK_REVOKED,
    DrawName.CALLBACK_LOST,
    DrawName.CALLBACK_ASSIGNED,
)
_US = 1_000


@frozen(kw_only=True)
class GroupTimes:
    """The longest times that a group's settings allow its members, in us.

    ``poll_us``: the application's work between two polls. ``records_us``: part of ``poll_us`` for records.
    ``calls_us``: one call of each callback, and other waits of a rebalance. ``close_us``: the shortest wait of a
    close() for its answers. ``commits``: host -> whether the member commits by interval; "" stands for later members.
    ``reads``: whether the consumer alone reads and commits (False for Streams and for KIP-333). ``heartbeat_us`` and
    ``target_us``: the interval of heartbeats, and the least time between two targets (4.3), in the consumer protocol.
    """

    session_us: int = 45_000_000
    rebalance_us: int = 300_000_000
    request_us: int = 30_000_000
    close_us: int = 30_000_000
    delay_us: int = 3_000_000
    commit_us: int = 5_000_000
    poll_us: int = 100_000
    records_us: int = 100_000
    calls_us: int = 0
    commits: Mapping[str, bool] = {}
    streams: bool = False
    reads: bool = True
    heartbeat_us: int = 5_000_000
    target_us: int = 0


def times_of(scenario: "Scenario", *, spaces_targets: bool = False) -> dict[GroupId, GroupTimes]:
    """The times that the settings of a scenario's groups allow."""
    broker = configured(BrokerConfig(), scenario.brokers.config)
    drawn = [how.most for name in _DRAWS if (how := scenario.draws.of(name)) is not None]
    poll_us = getattr(scenario.draws.of(DrawName.POLL_WORK), "most", 0)
    record_us = getattr(scenario.draws.of(DrawName.RECORD_WORK), "most", 0)
    found: dict[GroupId, GroupTimes] = {}
    hosts_of = scenario.hosts_of_groups()
    for name, group in scenario.groups.items():
        members = {host: group.overrides.get(host, MemberSpec()) for host in hosts_of[name]}
        configs = {host: group.consumer(name, host, 0, member=own) for host, own in members.items()}
        later = group.consumer(name, "", 0)
        every = [later, *configs.values()]
        works = [max(each.emulated_process_us_per_record, record_us) * each.max_poll_records for each in every]
        calls = [
            each.emulated_on_revoked_ms + each.emulated_on_lost_ms + each.emulated_on_assigned_ms for each in every
        ]
        sessions_ms = [each.session_timeout_ms for each in every]
        if name in scenario.consumer_protocol_groups:
            sessions_ms.append(scenario.longest_ms(name))
        found[name] = GroupTimes(
            session_us=max(sessions_ms) * _US,
            rebalance_us=max(each.max_poll_interval_ms for each in every) * _US,
            request_us=max(each.request_timeout_ms for each in every) * _US,
            close_us=min(min(each.emulated_close_timeout_ms, each.request_timeout_ms) for each in every) * _US,
            delay_us=broker.group_initial_rebalance_delay_ms * _US,
            commit_us=max(each.auto_commit_interval_ms for each in every) * _US,
            poll_us=max(works) + poll_us,
            records_us=max(works),
            calls_us=max(calls) * _US + sum(drawn),
            commits={"": later.enable_auto_commit, **{host: each.enable_auto_commit for host, each in configs.items()}},
            heartbeat_us=scenario.longest_ms(name, CONSUMER_HEARTBEAT_INTERVAL) * _US,
            target_us=scenario.longest_ms(name, CONSUMER_ASSIGNMENT_INTERVAL) * _US if spaces_targets else 0,
            streams=group.streams is not None,
            reads=group.streams is None and not any(each.enable_parallel_rebalance for each in every),
        )
    return found
