"""The word list: each term of reports, help texts and documents, defined once.

``kemu help WORD`` prints one definition. ``docs/words.md`` is this list (``python -m kemu.tools.words`` writes it).
The module reads figures, verdicts and exit codes from their declarations.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from kemu.protocol.frozen import frozen
from kemu.tools.exits import MEANING, VERDICTS


@frozen
class Word:
    """A term and its definition."""

    term: str
    meaning: str
    """The definition, in one or two sentences."""
    source: str = ""
    """A KIP, an issue, a class of Kafka or a page that defines the term; "" for a term of kemu."""
    also: tuple[str, ...] = ()
    """Other spellings and forms under which a reader may look for the term."""

    @property
    def line(self) -> str:
        """The definition with its source."""
        return f"{self.meaning} Source: {self.source}." if self.source else self.meaning


KAFKA = (
    Word(
        "acks",
        "Setting of a producer: the replicas that must have a batch before the leader acknowledges it (0: none, 1: the"
        " leader, all: every member of the ISR).",
        "producer setting acks",
        ("acknowledge", "acknowledgement"),
    ),
    Word(
        "assignor",
        "The algorithm by which the leader of a group divides partitions among the members, for example range,"
        " roundrobin, sticky or cooperative-sticky.",
        "consumer setting partition.assignment.strategy",
        ("assignment",),
    ),
    Word(
        "auto-commit",
        "Commits that a consumer sends every auto.commit.interval.ms, for the records that polls returned.",
        "consumer setting enable.auto.commit",
    ),
    Word(
        "changelog",
        "The topic to which a Kafka Streams task writes each change of its state store, so that another instance can"
        " restore the store.",
        "Kafka Streams, StoreChangelogReader",
    ),
    Word(
        "classic protocol",
        "The group protocol of JoinGroup, SyncGroup and Heartbeat, in which a member computes the assignment."
        " In the consumer protocol the coordinator computes the assignment.",
        "group.protocol=classic",
    ),
    Word(
        "commit",
        "The next offset to read of a partition, as a consumer group stores it in __consumer_offsets.",
        "OffsetCommitRequest",
        ("committed offset", "committed"),
    ),
    Word(
        "controlled shutdown",
        "The clean stop of a broker: the broker asks the controller to move the leadership of its partitions,"
        " and then ends.",
        "ControlledShutdownRequest",
    ),
    Word(
        "controller",
        "The broker that elects leaders of partitions and tells all brokers about the state of the cluster.",
        "KafkaController",
    ),
    Word(
        "controller epoch",
        "A number that rises by one with each new controller; brokers refuse requests with an older controller epoch.",
        "KafkaController",
    ),
    Word(
        "cooperative",
        "Rebalance protocol in which a member revokes only the partitions that move to other members. A"
        " follow-up rebalance then assigns the revoked partitions.",
        "KIP-429",
        ("incremental cooperative rebalancing",),
    ),
    Word(
        "coordinator",
        "The broker that leads a group's partition of __consumer_offsets. The coordinator admits members,"
        " runs rebalances and stores commits.",
        "GroupCoordinator",
        ("group coordinator",),
    ),
    Word(
        "Dead",
        "State of a group that its coordinator has unloaded or deleted.",
        "ClassicGroupState",
    ),
    Word(
        "eager",
        "Rebalance protocol in which every member revokes all of its partitions before it rejoins the group.",
        "KIP-429",
    ),
    Word("Empty", "State of a group that has no members and may have committed offsets.", "ClassicGroupState"),
    Word(
        "epoch",
        "A number that rises with each new holder of a role, such as leader or controller. Receivers refuse a"
        ' request with an older epoch. See "leader epoch" and "controller epoch".',
        "KIP-101, KIP-320",
    ),
    Word(
        "evict",
        "Remove a member from its group, because its session expired or the member did not rejoin in time.",
        "ClassicGroup",
        ("evicted",),
    ),
    Word(
        "fence",
        "Refuse a request because the sender has an outdated epoch, generation or member id.",
        "errors FENCED_LEADER_EPOCH, FENCED_INSTANCE_ID",
        ("fenced", "fencing"),
    ),
    Word(
        "follow-up rebalance",
        "The second rebalance of a cooperative move. The first rebalance revokes a partition from its old"
        " owner; the follow-up rebalance assigns the partition to its new owner.",
        "KIP-429",
    ),
    Word(
        "follower",
        "A replica that copies the log of its partition's leader by fetch requests. In a group: any member"
        " but the leader.",
        "ReplicaFetcherThread",
    ),
    Word(
        "generation",
        "The number of a group's assignment; each completed join phase adds one. The coordinator refuses"
        " requests with another generation (ILLEGAL_GENERATION).",
        "ClassicGroup",
    ),
    Word(
        "group",
        "Consumers with the same group.id that divide the partitions of their topics among them.",
        "consumer setting group.id",
        ("consumer group",),
    ),
    Word(
        "group leader",
        "The member that computes the assignment of its group. The coordinator chooses the leader, usually"
        " the first member to join.",
        "ClassicGroup",
        ("leader of a group",),
    ),
    Word(
        "heartbeat",
        "The request that a member sends to its coordinator every heartbeat.interval.ms to stay in the group."
        " The response announces a rebalance.",
        "HeartbeatRequest",
    ),
    Word(
        "high watermark",
        "The offset below which every in-sync replica has all records; consumers read only records below the"
        " high watermark.",
        "UnifiedLog",
    ),
    Word(
        "idempotent producer",
        "A producer whose batches carry a producer id and sequence numbers, so that a leader appends a retried batch"
        " only once.",
        "KIP-98",
        ("idempotence", "producer id"),
    ),
    Word(
        "ISR",
        "In-sync replicas: the leader, and the replicas that have caught up with the leader within"
        " replica.lag.time.max.ms.",
        "replica.lag.time.max.ms",
        ("in-sync replicas", "in-sync replica", "in sync"),
    ),
    Word(
        "JoinGroup",
        "The request by which a member enters its group or the next generation; the coordinator answers all members at"
        " the end of the join phase.",
        "JoinGroupRequest",
        ("join phase",),
    ),
    Word(
        "lag",
        "Log end offset of a partition minus the committed offset of the group, in records. Figures also"
        " measure lag in seconds: the age of the oldest record that the group has not processed.",
        "kafka-consumer-groups.sh --describe",
    ),
    Word(
        "leader epoch",
        "A number that rises with each new leader of a partition; each record has the epoch of its leader. A"
        " follower compares epochs with the leader before the follower truncates its log.",
        "KIP-101",
    ),
    Word(
        "leader of a partition",
        "The replica that takes the writes of a partition and serves the fetch requests of followers and consumers.",
        "Kafka's documentation, Replication",
        ("leader",),
    ),
    Word(
        "learner",
        "A copy of a Kafka Streams task that restores state beside the owner, and takes the task over when it has"
        " caught up.",
        "KIP-429, version of the page before the release",
    ),
    Word(
        "member",
        "One consumer in a group; the coordinator identifies each member by a member id.",
        "JoinGroupResponse",
        ("member id",),
    ),
    Word(
        "min.insync.replicas",
        "The smallest size of the ISR with which a leader accepts batches of producers with acks=all.",
        "topic setting min.insync.replicas",
    ),
    Word("offset", "The number of a record in its partition.", "Kafka's documentation, Introduction"),
    Word(
        "position",
        "The offset of the next record of a partition that a consumer's poll returns.",
        "KafkaConsumer.position",
    ),
    Word(
        "preferred leader",
        "The first replica in a partition's list of replicas. An election of preferred leaders makes this"
        " replica the leader.",
        "KIP-460",
    ),
    Word(
        "probing rebalance",
        "A rebalance that Kafka Streams starts every probing.rebalance.interval.ms to see whether warm-up replicas have"
        " caught up.",
        "KIP-441",
    ),
    Word(
        "reassignment",
        "The move of a partition to another list of replicas. The controller adds the new replicas, and"
        " removes the old replicas once all new replicas are in the ISR.",
        "KIP-455",
    ),
    Word(
        "rebalance",
        "The change of a group to its next generation: all members rejoin, the leader computes the"
        " assignment, and each member receives its part.",
        "ClassicGroup",
        ("PreparingRebalance", "CompletingRebalance"),
    ),
    Word("replica", "A broker's copy of a partition's log.", "Kafka's documentation, Replication"),
    Word(
        "revoke",
        "Take a partition from a member in a rebalance. The callback onPartitionsRevoked lets the member commit first.",
        "ConsumerRebalanceListener",
        ("revoked", "revocation"),
    ),
    Word(
        "session timeout",
        "The time without a heartbeat after which the coordinator evicts a member.",
        "consumer setting session.timeout.ms",
        ("session expired",),
    ),
    Word("Stable", "State of a group in which every member has its assignment and may fetch.", "ClassicGroupState"),
    Word(
        "standby",
        "A replica of a Kafka Streams task's state that follows the changelog and processes no records.",
        "num.standby.replicas",
    ),
    Word(
        "static member",
        "A member with a group.instance.id. A static member that restarts within its session timeout keeps"
        " its partitions, and no rebalance follows.",
        "KIP-345",
        ("static membership", "group.instance.id", "instance id"),
    ),
    Word(
        "sticky",
        "Property of an assignor: members keep as many of their partitions as a balanced assignment allows.",
        "KIP-54",
    ),
    Word(
        "subscription",
        "The part of a member's JoinGroup request that an assignor reads: its topics, its partitions and, by version,"
        " its generation and rack.",
        "ConsumerProtocolSubscription",
    ),
    Word(
        "SyncGroup",
        "The request with which the leader of a group sends the assignment; each member receives its part in"
        " the response.",
        "SyncGroupRequest",
    ),
    Word(
        "task",
        "The unit of work of Kafka Streams: one partition of each input topic of a subtopology, with its state.",
        "Kafka Streams architecture",
    ),
    Word(
        "truncate",
        "Remove records from the end of a log, because the leader's log does not have these records.",
        "KIP-101",
        ("truncation",),
    ),
    Word(
        "unclean election",
        "Election of a leader outside the ISR. Records are lost if only replicas in the ISR had them.",
        "topic setting unclean.leader.election.enable",
    ),
    Word(
        "warm-up",
        "A temporary replica of a Kafka Streams task on the instance that will own the task after a probing rebalance.",
        "KIP-441",
    ),
)
"""Kafka's terms."""

KEMU = (
    Word(
        "action",
        'One thing that a plan does to the cluster: a fault such as "crash", or an operator\'s work such as'
        ' "rolling-restart". "kemu describe actions" and "kemu describe faults" list all actions.',
    ),
    Word(
        "allowance",
        "A bounded exception to a checker's rule, for behaviour that Kafka shows too. Each allowance names"
        " its source in Kafka.",
        also=("allowances",),
    ),
    Word(
        "balance",
        "State of a Stable group in which each partition has an owner, and no running member owns two"
        " partitions more than another.",
        also=("balanced",),
    ),
    Word("calm", "The set of draws with constant latencies, pauses and phases.", also=("calm draws",)),
    Word(
        "campaign",
        "Runs on Spark of each combination of scenarios, profiles, settings and seeds.",
    ),
    Word(
        "canary",
        "A run with a deliberate error that a checker must report. If no violation is reported, the checker is broken.",
    ),
    Word(
        "checker",
        'An observer that compares the facts of a run with one set of rules. "kemu describe checkers" lists'
        " all checkers.",
    ),
    Word(
        "core",
        'The hosts that recover after the faults, in a scenario whose other hosts stay crashed or isolated ("away").',
        also=("away",),
    ),
    Word(
        "correctness rule",
        "A rule that forbids an event, such as two owners of one partition. A run that breaks a correctness"
        " rule has the verdict violated.",
        also=("correctness", "safety"),
    ),
    Word(
        "coverage",
        "The states, transitions, messages and rare events that runs reached, out of all that the machines know.",
    ),
    Word(
        "did not work",
        "Remark on a run in which a member failed permanently or a group processed no record. kemu does not"
        " compare the figures of such a run with those of other runs.",
    ),
    Word(
        "digest",
        "A hash over all steps, packets and facts of a run. Equal digests mean equal runs.",
    ),
    Word(
        "down",
        "State of a partition without service: records wait in the partition, or no member owns the partition.",
        also=("without service",),
    ),
    Word(
        "draw",
        'A duration or an order that the seed decides. "kemu describe draws" lists all draws.',
        also=("draws",),
    ),
    Word(
        "episode",
        "The time from an event outside a group (a fault, a restart, a grown topic) until the group is"
        " balanced. For Kafka Streams: until no task is restored or moved.",
    ),
    Word(
        "event loop",
        'The loop that runs the machines in virtual time: "trio" runs each machine as a Trio task, "bare"'
        " calls the machines directly. Both loops give the same digest.",
        also=("loop",),
    ),
    Word(
        "expected loss",
        "A loss of records that Kafka's rules allow, for example with acks=1 or after an unclean election. An"
        " expected loss is no violation.",
        also=("loss",),
    ),
    Word(
        "explore",
        "Run one scenario with many orders of its messages, until a run breaks a rule.",
        also=("exploration", "schedule"),
    ),
    Word("fact", "An event of the emulated world that observers see, such as the start or the end of a host."),
    Word(
        "fault",
        "An action that damages the cluster for some time: a crash, a pause, a partition of the network."
        ' "never fired" marks a fault without an effect.',
        also=("never fired",),
    ),
    Word(
        "fresh",
        "State of a member that processes records produced after the start of the member.",
        also=("freshness",),
    ),
    Word("heal", "End all faults at once: start, resume and connect all hosts.", also=("healed",)),
    Word(
        "history",
        "The acknowledged writes and the polls of a run, as clients saw them. Anomalies have the names of"
        " Jepsen's Kafka tests.",
    ),
    Word(
        "kind",
        'The way in which a run breaks a rule, such as "two-owners". The key "expect" of a scenario names kinds.',
    ),
    Word("life", "The set of draws with measured distributions of latencies and pauses; the default."),
    Word(
        "liveness rule",
        "A rule that requires an event within a bound, such as a Stable group after the last fault. A run"
        " that breaks a liveness rule has the verdict liveness.",
    ),
    Word(
        "machine",
        "The code of one role (consumer, coordinator, broker, controller, ...) as a state machine. A machine"
        " receives events and returns effects, without a clock or I/O.",
    ),
    Word(
        "mutant",
        "A copy of a machine with one changed expression. A test or a checker must notice the change.",
        also=("mutation",),
    ),
    Word("note", 'A machine\'s report of its own change of state, such as "GroupBecame"; traces keep all notes.'),
    Word(
        "panel",
        "The observer that knows the owner and the leader of each partition, and each group's coordinator, at"
        " any time. Checkers and figures read the panel.",
    ),
    Word(
        "past bug",
        "A bug of a release of Kafka. kemu can enable a past bug by its JIRA issue.",
        also=("past bugs", "mended"),
    ),
    Word("plan", "The list of actions of a scenario, each with its time or its trigger."),
    Word("preset", 'A scenario of the package, which commands accept by name. "kemu scenarios" lists all presets.'),
    Word(
        "profile",
        'The release of Kafka that kemu emulates, such as kafka-3.4. "kemu describe profiles" lists all profiles.',
    ),
    Word(
        "replay",
        "Feed the recorded events of a trace to today's machines, and compare the effects with the recorded effects.",
    ),
    Word(
        "scenario",
        "The description of a run: brokers, topics, groups, load, plan and checks, as a TOML file or as a"
        " Python value.",
    ),
    Word(
        "seed",
        "The number that decides all draws of a run. The same scenario, profile and seed give the same digest.",
    ),
    Word("service", "A partition has service while its owner processes its records or waits for new ones."),
    Word("shrink", "Remove parts of a failing scenario as long as the same violation remains.", also=("shrunk",)),
    Word("story", "The events of a run that a report prints, one line each, with virtual times."),
    Word(
        "summary",
        'A table that "kemu analyze" computes from the rows of a campaign, such as one row for each rebalance.',
        also=("summary table", "summaries"),
    ),
    Word(
        "swarm",
        "Runs of random clusters, loads and plans. Each seed disables about half of the families of faults.",
        "Groce et al., Swarm testing, 2012",
    ),
    Word("trace", "A file with every step, packet and fact of one run."),
    Word(
        "unmended",
        "A part of the cluster that did not recover after the faults, for a reason that also blocks real"
        " Kafka. An unmended part is no violation.",
    ),
    Word(
        "variant",
        'A configuration that "kemu compare" compares with others: a profile, an assignor or a setting, with'
        " its label.",
    ),
    Word("verdict", "The result of a run: " + ", ".join(VERDICTS) + "."),
    Word(
        "violation",
        "A report that a run broke a rule, with checker, kind, time and the hosts, groups or partitions concerned.",
    ),
    Word(
        "virtual time",
        "The time inside the emulation. Virtual time advances from event to event, so the emulation of a"
        " minute may take a second.",
    ),
    Word(
        "zombie",
        "A member that still processes a partition after a later generation assigned the partition to another"
        " member. Reports count the records that zombies process.",
        also=("zombie record", "zombie member"),
    ),
)
"""Terms of kemu."""


def verdicts() -> tuple[Word, ...]:
    """Return the verdicts of runs."""
    return tuple(Word(name, verdict.meaning) for name, verdict in VERDICTS.items())


def figures() -> tuple[Word, ...]:
    """Return the measures that reports print, each with its unit."""
    from kemu.emulator.metrics.metrics import FIGURES

    return tuple(Word(name, f"({kind.unit or 'count'}) {kind.meaning}") for name, kind in FIGURES.items())


def sections() -> Mapping[str, tuple[Word, ...]]:
    """Return every word, by the title of its section."""
    return {"Verdicts": verdicts(), "Figures": figures(), "Terms of Kafka": KAFKA, "Terms of kemu": KEMU}


def _key(text: str) -> str:
    return "_".join(text.lower().replace("-", " ").replace("_", " ").split())


def names(word: Word) -> Iterator[str]:
    """Yield the normalized names under which a word is found."""
    yield from map(_key, (word.term, *word.also))


def known() -> list[str]:
    """Return every term and its other forms, for hints about unknown words."""
    every: Iterable[Word] = chain.from_iterable(sections().values())
    return [name for word in every for name in (word.term, *word.also)]


def look_up(asked: str) -> list[Word]:
    """Return the words of this name, then the figures whose names begin with it; empty for an unknown word.

    Capitals, hyphens and underscores make no difference.
    """
    key = _key(asked)
    keys = {key, key.removesuffix("s")}
    exact = [word for word in chain.from_iterable(sections().values()) if keys & set(names(word))]
    return exact + [word for word in figures() if word not in exact and _key(word.term).startswith(f"{key}_")]


def markdown() -> str:
    """Return the text of docs/words.md."""
    lines = [
        "# Words",
        "",
        "This page defines every term of reports, help texts and documents. `kemu help WORD` prints one definition.",
        "`python -m kemu.tools.words` generates this page from `kemu/tools/words.py`.",
    ]
    for title, words in sections().items():
        lines += ["", f"## {title}", "", "| term | definition |", "|---|---|"]
        lines += [f"| {_cell(word.term)} | {_cell(word.line)} |" for word in words]
    lines += ["", "## Exit codes", "", "| code | meaning |", "|---:|---|"]
    lines += [f"| {code} | {_cell(meaning)} |" for code, meaning in MEANING.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path("docs/words.md").write_text(markdown(), encoding="utf-8")
