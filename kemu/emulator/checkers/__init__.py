"""Checkers: the rules that every run must keep. Each file holds one rule with its theory; the table ``CHECKERS`` is in
this module.

Checker of each invariant of replication:

- One leader per leader epoch; only controllers raise the epoch of a
  partition, by one: ``leadership``.
- Controller epochs rise; only the newest controller writes: ``leadership``.
- The leader is in the ISR; the ISR is not empty and within the replicas:
  ``leadership``.
- Members of the ISR have every committed record: ``replicas``.
- Every later leader has the committed and acknowledged (acks=all) records:
  ``replicas``, ``no-lost-record``.
- Logs are equal up to their high watermarks: ``replicas``.
- A leader's high watermark does not decrease within its epoch: ``replicas``.
- All readers of a partition find the same committed record at an offset: ``replicas``.
- A leader waits for at least the ISR in the store: ``leadership``.
- No broker obeys an older controller, broker epoch or leader epoch:
  ``leadership``.
- A cluster has a controller and leaders; orders and metadata reach brokers;
  replicas get in sync: ``duties``.
- A partition without service waits no longer than its cause allows:
  ``group-progress``.
- No request and no announcement stays in the store: ``duties``.
- Appended records are committed, and requests are answered: ``duties``.
- Replicas join and leave the ISR by Kafka's rules; acks=all means ``min.insync.replicas``: ``isr``.
- A closing broker transfers its leaderships: ``isr``.
- A restarted replica has no higher watermark than was ever committed:
  ``isr``.
- A log has each batch of an idempotent producer at most once (KIP-98):
  ``idempotence``.
- Reassignments change only what their steps say, within the limits, and
  end: ``reassignment``.

``requests``, ``pace`` and ``fields`` watch the wire: answers, intervals
between requests, and fields. ``answers`` judges whether errors are true,
``clients`` when a request is retried. ``catch-up`` holds the invariants of
KIP-333's mode. ``emulator.findings`` lists the losses that are allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kemu.emulator.checkers.answers import Answers
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.catch_up import CatchUpChecker
from kemu.emulator.checkers.clients import Clients
from kemu.emulator.checkers.commits import CommitsChecker
from kemu.emulator.checkers.cooperative import Cooperative
from kemu.emulator.checkers.fields import Fields
from kemu.emulator.checkers.group_progress import GroupDuties, times_of
from kemu.emulator.checkers.idempotence import Idempotence
from kemu.emulator.checkers.isr import Isr
from kemu.emulator.checkers.leadership import LeadershipChecker
from kemu.emulator.checkers.lifecycle import Lifecycle
from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US, Liveness
from kemu.emulator.checkers.membership import MembershipRules
from kemu.emulator.checkers.no_lost_record import NoLostRecord
from kemu.emulator.checkers.one_owner import OneOwner
from kemu.emulator.checkers.pace import Pace
from kemu.emulator.checkers.reassignment import ReassignmentChecker
from kemu.emulator.checkers.replicas import Replicas
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.checkers.requests import Requests
from kemu.emulator.checkers.tasks import Tasks
from kemu.emulator.checkers.useless_work import UselessWork
from kemu.emulator.text.kafka_keys import configured
from kemu.emulator.watching.settings import Settings
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.protocol.topic_pattern import TopicPattern

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario

T = TypeVar("T")

CHECKERS: Mapping[str, type[Checker]] = {
    "one-owner": OneOwner,
    "cooperative": Cooperative,
    "commits": CommitsChecker,
    "no-lost-record": NoLostRecord,
    "membership": MembershipRules,
    "useless-work": UselessWork,
    "lifecycle": Lifecycle,
    "group-progress": GroupDuties,
    "liveness": Liveness,
    "replicas": Replicas,
    "leadership": LeadershipChecker,
    "duties": ReplicationDuties,
    "isr": Isr,
    "idempotence": Idempotence,
    "reassignment": ReassignmentChecker,
    "tasks": Tasks,
    "catch-up": CatchUpChecker,
    "answers": Answers,
    "clients": Clients,
    "requests": Requests,
    "pace": Pace,
    "fields": Fields,
}
"""Checker's name -> its class."""
OF_REPLICAS = (Replicas, Isr, ReplicationDuties)
"""Checkers of replicated logs. Without replication these checkers judge nothing."""


def make_checkers(
    *, bound_us: int = DEFAULT_BOUND_US, topics: Mapping[str, Iterable[str] | TopicPattern] | None = None
) -> tuple[Checker, ...]:
    """One new checker of each kind, in the order of the table.

    Args:
        bound_us: time after the last fault within which groups become stable and resume processing records.
        topics: subscribed topics by group; otherwise they are read from the assignments.
    """
    bounded: Mapping[str, Checker] = {
        each.name: each for each in (Liveness(bound_us, topics), CatchUpChecker(bound_us), Tasks(bound_us))
    }
    return tuple(bounded[name] if name in bounded else make() for name, make in CHECKERS.items())


def checkers_for(scenario: "Scenario", profile: str = "") -> tuple[Checker, ...]:
    """All checkers, with the bounds and subscriptions of a scenario.

    Args:
        scenario: the scenario of the run.
        profile: the release of the run; "": the scenario's.
    """
    topics = {name: group.subscription for name, group in scenario.groups.items()}
    liveness = Liveness(scenario.stable_within_us, topics, max_age_us=scenario.metadata_max_age_us)
    streams = {name: group.streams.settings for name, group in scenario.groups.items() if group.streams is not None}
    exactly_once = [name for name, settings in streams.items() if settings.exactly_once]
    commit_us = {name: settings.commit_interval_ms * 1_000 for name, settings in streams.items()}
    tasks = Tasks(scenario.stable_within_us, exactly_once, commit_us)
    broker = configured(BrokerConfig(), scenario.brokers.config)
    retention_us = broker.offsets_retention_minutes * 60_000_000
    policies = {**dict.fromkeys(streams, "earliest"), **_by_member(scenario, lambda of: of.auto_offset_reset)}
    times = times_of(scenario)
    catch_up = CatchUpChecker(
        scenario.stable_within_us,
        {name: each.commit_us + 2 * each.poll_us for name, each in times.items() if all(each.commits.values())},
    )
    settings = Settings(scenario, profile or scenario.profile or DEFAULT_PROFILE)
    of_groups = (
        liveness,
        GroupDuties(times),
        tasks,
        catch_up,
        MembershipRules(broker.group_initial_rebalance_delay_ms * 1_000, settings),
        CommitsChecker(
            policies,
            retention_us,
            _committing_groups(scenario),
            broker.offsets_retention_check_interval_ms * 1_000,
        ),
        UselessWork(
            [name for name, group in scenario.groups.items() if group.streams is None],
            racks=any(group.racks for group in scenario.groups.values()),
        ),
        Lifecycle(_by_member(scenario, lambda of: of.max_poll_interval_ms * 1_000), settings),
        Answers(settings),
        Requests(settings),
        Pace(settings),
        Fields(settings),
        Clients(settings, times),
    )
    bounded: Mapping[str, Checker] = {each.name: each for each in of_groups}
    made = tuple(bounded.get(checker.name, checker) for checker in make_checkers())
    replication = scenario.brokers.replication
    for checker in made:
        if (replication is None and isinstance(checker, OF_REPLICAS)) or (not streams and isinstance(checker, Tasks)):
            checker.rest()
    if replication is None:
        return made
    fitted: dict[str, Checker] = {
        each.name: each
        for each in (
            Replicas(),
            ReplicationDuties(
                replication.controller_config(),
                replication.replica_config(),
                min(map(scenario.brokers.bandwidth_of, scenario.broker_names())),
                configured(ProducerConfig(), scenario.producers).request_timeout_ms * 1_000,
            ),
            ReassignmentChecker(limits=replication.limits()),
        )
    }
    return tuple(fitted.get(checker.name, checker) for checker in made)


def _by_member(scenario: "Scenario", setting: Callable[[ConsumerConfig], T]) -> dict[str, T]:
    """A setting by group, and by host where a member's own setting differs.

    The result has no Streams applications, because these configure their consumers themselves.
    """
    found: dict[str, T] = {}
    for name, group in scenario.groups.items():
        if group.streams is None:
            found[name] = setting(group.consumer(name, "", 0))
            for host, own in group.overrides.items():
                found[host] = setting(group.consumer(name, host, 0, member=own))
    return found


def _committing_groups(scenario: "Scenario") -> tuple[str, ...]:
    """Groups of eager members with the same settings and with auto-commit."""
    found = []
    for name, group in scenario.groups.items():
        config = group.consumer(name, "", 0, PROFILES[scenario.profile or DEFAULT_PROFILE].consumer)
        by_range = set(config.partition_assignment_strategy) & {"range", "roundrobin", "sticky"}
        eager = bool(by_range) and config.rebalance_protocol == "eager" and not config.enable_parallel_rebalance
        if group.streams is None and not group.overrides and eager and config.enable_auto_commit:
            found.append(name)
    return tuple(found)
