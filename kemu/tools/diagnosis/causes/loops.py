"""``rebalance-loop`` and causes of rebalances that repeat: leaders, crashes, Streams, Connect."""

from collections import Counter
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, apart_us, client_of
from kemu.tools.logs.events import Event

FEWEST = 3
LOOP = 5
UNSTATED = 8
NEAR_US = 120 * SECOND


def near(events: list[Event], most_us: int = NEAR_US) -> list[Event]:
    """The longest run of events in which neighbours are at most ``most_us`` apart."""
    best: list[Event] = []
    run: list[Event] = []
    for event in events:
        gap_us = apart_us(run[-1], event) if run else 0
        run = [*run, event] if gap_us is None or gap_us <= most_us else [event]
        best = max(best, run, key=len)
    return best


class RebalanceLoop(KnownCause):
    """A group rebalances again and again, for no single reason that another cause names."""

    id: ClassVar[str] = "rebalance-loop"
    means: ClassVar[str] = "A group rebalances again and again; the finding names who drives the rebalances."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "look at the member that drives the rebalances", "KIP-800"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """At least five rebalances at most two minutes apart, of which one client drives three or more.

        Without stated reasons, at least eight: as many members can start one by one.
        """
        for group in incident.groups:
            run = near([event for event in incident.begins if event.group == group])
            own = [event for event in run if event.cause not in ("leader-rejoin", "metadata-change")]
            named = Counter(client_of(event.member) for event in own if event.member)
            silent = [event for event in own if event.cause in (None, "not stated", "other")]
            if len(run) >= LOOP and (max(named.values(), default=0) >= FEWEST or len(silent) >= UNSTATED):
                drivers = Counter(client_of(event.member) or "not stated" for event in run).most_common(1)
                reasons = Counter(event.cause or "not stated" for event in run).most_common(1)
                return Finding(
                    says=f"{len(run)} rebalances of group {group}; most often for {drivers[0][0]} ({reasons[0][0]})",
                    confidence=0.5,
                    evidence=tuple(run),
                )
        return None


class LeaderRejoins(KnownCause):
    """The leader of a group, or a member with new metadata, rejoins again and again."""

    id: ClassVar[str] = "leader-rejoins"
    means: ClassVar[str] = "The leader rejoins again and again, because its metadata or its subscription changes."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action", "look for topics that appear and disappear, and for members with differing metadata", "KIP-41"
        ),
        Remedy(
            "setting",
            "metadata.max.age.ms longer, or a subscription by name instead of a pattern",
            "ConsumerConfig (3.9)",
        ),
    )

    def find(self, incident: Incident) -> Finding | None:
        """At least three in a row for the leader's rejoin or for changed metadata, close together.

        A follow-up of a cooperative rebalance looks alike, but it follows a join or a departure.
        """
        run: list[Event] = []
        for group in incident.groups:
            for event in (*(each for each in incident.begins if each.group == group), None):
                if event is not None and event.cause in ("leader-rejoin", "metadata-change"):
                    run.append(event)
                elif len(near(run)) >= FEWEST:
                    break
                else:
                    run = []
        run = near(run)
        if len(run) < FEWEST:
            return None
        return Finding(
            says=f"{len(run)} rebalances for the leader's rejoin or for changed metadata",
            confidence=0.75,
            evidence=tuple(run),
        )


class ApplicationCrashLoop(KnownCause):
    """An application crashes, restarts and crashes again."""

    id: ClassVar[str] = "application-crash-loop"
    means: ClassVar[str] = "An application fails and starts again, and each start is a rebalance for its group."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action", "handle the error that ends the consumer; wait longer between two starts", "KafkaConsumer (3.9)"
        ),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = (
        "assignor-mismatch",
        "static-id-used-twice",
        "max-poll-interval-exceeded",
    )

    def find(self, incident: Incident) -> Finding | None:
        """Crashes in a client's log; else one client that joins and is gone again, at least three times."""
        crashes = incident.of("consumer-crash")
        if crashes:
            again = [*crashes, *incident.of("consumer-restart")]
            return Finding(
                says=f"{len(crashes)} crash(es) of a consumer",
                confidence=0.8 if len(crashes) > 1 else 0.6,
                evidence=tuple(again),
                against=() if len(crashes) > 1 else ("one crash is no loop",),
            )
        gone = Counter((each.group, each.client_id) for each in incident.departures if each.client_id)
        joined = Counter((event.group, client_of(event.member)) for event in incident.begins if event.cause == "join")
        for (group, client), count in gone.items():
            others = {each.client_id for each in incident.departures if each.group == group} - {client}
            if count >= FEWEST and joined[group, client] >= FEWEST and not others:
                run = [event for each in incident.departures if each.client_id == client for event in each.events]
                return Finding(
                    says=f"{client} left {count} times and joined {joined[group, client]} times, and nobody else",
                    confidence=0.6,
                    evidence=tuple(run),
                    against=("members of one client id may be several processes",),
                )
        return None


class StreamsProbing(KnownCause):
    """Streams rebalances to move tasks to warm standbys, again and again."""

    id: ClassVar[str] = "streams-probing-rebalances"
    means: ClassVar[str] = "Streams rebalances to look whether warm-up tasks are ready, at each probing interval."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "probing.rebalance.interval.ms longer, or acceptable.recovery.lag higher", "KIP-441"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """At least two requests to rejoin for a probing or follow-up rebalance."""
        asked = [
            event
            for event in incident.of("rejoin-requested", "rebalance-begins", "rebalance-seen")
            if any(word in (event.reason or "").lower() for word in ("probing", "followup rebalance", "follow-up"))
        ]
        if len(asked) < FEWEST - 1:
            return None
        return Finding(says=f"{len(asked)} probing or follow-up rebalances", confidence=0.75, evidence=tuple(asked))


class ConnectConfigBehind(KnownCause):
    """Workers of Connect read different ends of the config topic."""

    id: ClassVar[str] = "connect-config-behind"
    means: ClassVar[str] = "A worker of Connect is behind in the config topic, and forces a rebalance until it is not."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "check that all workers read one config.storage.topic, and that this topic is compacted",
               "WorkerCoordinator (3.9)"),
    )  # fmt: skip

    def find(self, incident: Incident) -> Finding | None:
        """At least two rebalances that a worker forces because of the offset of its config."""
        asked = [
            event
            for event in incident.of("rejoin-requested", "rebalance-seen", "client-internal", "rebalance-begins")
            if "group assignment" in (event.reason or "").lower()
        ]
        if len(asked) < FEWEST - 1:
            return None
        return Finding(says=f"{len(asked)} forced rebalances", confidence=0.75, evidence=tuple(asked))
