"""Checkers: the rules that every run must keep. Each file holds one rule with its theory.

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
- Controllers remove each request and announcement from the store: ``duties``.
- Appended records are committed, and requests are answered: ``duties``.
- Replicas join and leave the ISR by Kafka's rules; acks=all means ``min.insync.replicas``: ``isr``.
- A closing broker transfers its leaderships: ``isr``.
- A restarted replica has no higher watermark than was ever committed:
  ``isr``.
- A log has each batch of an idempotent producer at most once (KIP-98):
  ``idempotence``.
- Reassignments change only the replicas of their steps, within the limits, and end: ``reassignment``.

``requests``, ``pace`` and ``fields`` watch the wire: answers, intervals
between requests, and fields. ``answers`` judges whether errors are true,
``clients`` when a request is retried. ``catch-up`` holds the invariants of
KIP-333's mode. ``emulator.findings`` lists the losses that are allowed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kemu.emulator.checkers.base import Checker
from kemu.emulator.package_modules import subclasses_in
from kemu.emulator.watching.settings import Settings
from kemu.protocol.profiles import DEFAULT_PROFILE

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario


CHECKERS: Mapping[str, type[Checker]] = {
    checker.name: checker
    for checker in sorted(subclasses_in(__name__, Checker), key=lambda checker: checker.name)
    if checker is not Checker
}
"""Name of a checker -> class. A new checker needs only a file with a subclass of ``Checker`` in this folder."""


OF_LOGS = ("one-owner",)
"""Names of checkers whose facts the logs of brokers and clients state (``kemu import-log``)."""


def checkers_for(scenario: "Scenario", profile: str = "", source: str = "run") -> tuple[Checker, ...]:
    """New objects of all checkers, with the bounds and subscriptions of a scenario.

    Args:
        scenario: the scenario of the run.
        profile: the release of the run; "" for the scenario's release.
        source: "log" for facts of logs, which only the checkers ``OF_LOGS`` can judge.
    """
    settings = Settings(scenario, profile or scenario.profile or DEFAULT_PROFILE)
    names = OF_LOGS if source == "log" else CHECKERS
    checkers = tuple(CHECKERS[name].for_run(settings) for name in names)
    of_consumers = {name for name, group in scenario.groups.items() if group.uses_consumer_protocol}
    for checker in checkers:
        checker.consumer_protocol_groups = of_consumers
        checker.skips_real_clients = bool(scenario.clients.hosts())
    return checkers
