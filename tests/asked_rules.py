"""Which rules a run asks: what machines decide by, wrapped for one run, so that it tells which past bugs could matter.

A past bug is a field of a rule with another value. A machine asks its rules last, when nothing else decides: so a run
in which a field is not asked is, with another value in it, the same run. Where a field is asked all the time both
values are tried, and it counts as asked when they differ:

* assignors: today's and the past one get the same members, and differ in what they give or say;
* ``moved_too_early``: both leaders' checks see the same assignment;
* offsets that expire: not in a run that is shorter than ``offsets.retention.minutes``.

Some bugs of replication change what is said, or when, in almost every run, mostly without deciding anything otherwise.
They count by what they decide: a run that is passed over could show them by another course alone, as any run could.

* ``truncation`` (KAFKA-1211, KAFKA-6361): where a follower cuts its log, by its leader's answer, the other way to cut
  keeps something else;
* ``follows_same_leader_again`` (KAFKA-7164): it is asked, and some follower cuts records off;
* ``leader_writes_epoch`` (KAFKA-7415): somebody is asked where an epoch ends that it does not know, or while the last
  that it knows has no record yet;
* the versions of a controller's requests (KAFKA-7235): by what the epochs that they lack would decide.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from attrs import evolve

from kemu.actors.broker import replica_fetchers
from kemu.actors.broker.leader_epochs import EpochEndOffset, LeaderEpochs, TruncationPoint, truncation_for
from kemu.actors.streams import thread
from kemu.emulator.cluster import releases
from kemu.emulator.past_bugs import applying
from kemu.emulator.past_bugs.bug import PastBug
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.assign.base import Assignor, Memory, Subscriber, Topics
from kemu.protocol.assign.checked import InvalidAssignment
from kemu.protocol.profiles import Profile
from kemu.protocol.replication import Truncation

BY_WHAT_THEY_DECIDE = ("KAFKA-1211", "KAFKA-7164", "KAFKA-7415")
"""Bugs with which a run that asks nothing of them may take another course all the same."""
_end_offset_for = LeaderEpochs.end_offset_for
US_PER_MINUTE = 60_000_000
ALSO = {"stop_replica_version": ("stop_epoch",)}
"""A version that says less: the field that would decide by it."""
BY_WHAT_IT_SAYS = ("leader_and_isr_version", "stop_replica_version", "update_metadata_version")
CUTS = "records are cut off"
UNKNOWN_EPOCH = "an epoch without records"
ALSO_NEEDS = {"follows_same_leader_again": CUTS, "leader_writes_epoch": UNKNOWN_EPOCH}
"""Fields that are asked often: what must have happened, too, for them to matter."""
EXPIRY = ("keeps_offsets_of_members", "keeps_offsets_while_rebalancing")


class Asked:
    """What one run asked: fields of rules, and past bugs whose values would have decided otherwise."""

    def __init__(self, bugs: Iterable[PastBug]) -> None:
        self.bugs = tuple(bugs)
        self.fields: set[str] = set()
        self.differ: set[tuple[str, str]] = set()
        """(field or assignor, issue)."""
        self._values: dict[str, Any] = {}
        """Field -> what the run has."""

    def could_matter(self, bug: PastBug, scenario: Scenario) -> bool:
        """Whether this bug could have changed anything in the run; ``scenario`` is the run's."""
        past = bug.past
        if any((name, bug.issue) in self.differ for name in (*past.assignors, "moved_too_early", "truncation")):
            return True
        given = {**past.replica, **past.controller, **past.coordinator, **past.consumer}
        return any(self._matters(name, value, scenario) for name, value in given.items())

    def _matters(self, name: str, value: Any, scenario: Scenario) -> bool:
        if name in self._values and self._values[name] == value:
            return False
        if name in BY_WHAT_IT_SAYS:
            return any(each in self.fields for each in ALSO.get(name, ()))
        if name in ALSO_NEEDS and ALSO_NEEDS[name] not in self.fields:
            return False
        if name in EXPIRY and not _may_expire(scenario):
            return False
        if name == "truncation":
            return Truncation.ON_FETCH in (value, self._values.get(name))
        return name != "moved_too_early" and name in self.fields

    def rules(self, rules: Any) -> Any:
        """The same rules; what is asked of them is noted."""
        self._values |= {name: getattr(rules, name) for name in _fields(rules)}
        return _Watched(rules, self)

    def evolved(self, made: Any, **changes: Any) -> Any:
        """``attrs.evolve``, also of rules that are watched: a Streams thread changes those of its consumer."""
        return _Watched(evolve(made._rules, **changes), self) if type(made) is _Watched else evolve(made, **changes)

    def assignor(self, today: Assignor) -> Assignor:
        """The same assignor; the past ones of its name are asked, too."""
        past = [(bug.issue, bug.past.assignors[today.name]) for bug in self.bugs if today.name in bug.past.assignors]
        return _AskedBoth(today, past, self.differ) if past else today

    def checked(self, today: Callable[..., Any]) -> Callable[..., Any]:
        """A leader's check, and those of the past."""
        name = "moved_too_early"
        past = [(bug.issue, bug.past.consumer[name]) for bug in self.bugs if name in bug.past.consumer]

        def both(*given: Any) -> Any:
            found = today(*given)
            self.differ |= {("moved_too_early", issue) for issue, then in past if then(*given) != found}
            return found

        return both

    def cut(
        self, answer: EpochEndOffset, own: LeaderEpochs, end_offset: int, high_watermark: int, mode: Truncation
    ) -> TruncationPoint:
        """A follower's cut by its leader's answer, and those of the past."""
        found = truncation_for(answer, own, end_offset, high_watermark, mode)
        for bug in self.bugs:
            then = bug.past.replica.get("truncation", mode)
            if then is Truncation.HIGH_WATERMARK:
                differs = min(high_watermark, end_offset) != found.end_offset
            else:
                differs = then is not mode and truncation_for(answer, own, end_offset, high_watermark, then) != found
            if differs:
                self.differ.add(("truncation", bug.issue))
        if found.end_offset < end_offset:
            self.fields.add(CUTS)
        return found

    def end_offset(self, epochs: LeaderEpochs, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where an epoch ends, and whether that is about one without records."""
        known = epochs.entries
        if known and (known[-1][1] == log_end_offset or epoch not in [each for each, _ in known]):
            self.fields.add(UNKNOWN_EPOCH)
        return _end_offset_for(epochs, epoch, log_end_offset)


def _fields(rules: Any) -> list[str]:
    return [each.name for each in type(rules).__attrs_attrs__]


def _may_expire(scenario: Scenario) -> bool:
    kept = dict(scenario.brokers.config).get("offsets_retention_minutes")
    return isinstance(kept, int) and kept * US_PER_MINUTE < 2 * scenario.ends_us


class _Watched:
    """Rules of which everything is asked through here."""

    __slots__ = ("_asked", "_rules")

    def __init__(self, rules: Any, asked: Asked) -> None:
        self._rules = rules
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._rules, name)
        if name == "moved_too_early":
            return self._asked.checked(value)
        self._asked.fields.add(name)
        return value


class _AskedBoth:
    """An assignor, beside those of the past that have its name."""

    def __init__(self, today: Assignor, past: list[tuple[str, Assignor]], differ: set[tuple[str, str]]) -> None:
        self._today = today
        self._past = past
        self._differ = differ

    def __getattr__(self, name: str) -> Any:
        return getattr(self._today, name)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """Today's."""
        found = self._today.user_data(memory)
        self._note(issue for issue, then in self._past if then.user_data(memory) != found)
        return found

    def assign(self, topics: Topics, members: Mapping[str, Subscriber]) -> Any:
        """Today's."""
        found = self._today.assign(topics, members)
        self._note(issue for issue, then in self._past if _assigned(then, topics, members) != found)
        return found

    def _note(self, issues: Iterable[str]) -> None:
        self._differ.update((self._today.name, issue) for issue in issues)


def _assigned(assignor: Assignor, topics: Topics, members: Mapping[str, Subscriber]) -> Any:
    try:
        return assignor.assign(topics, members)
    except InvalidAssignment:
        return None


@contextmanager
def asking(bugs: Iterable[PastBug]) -> Iterator[Asked]:
    """Runs that are made meanwhile tell what they ask."""
    asked = Asked(bugs)
    of_replicas, of_controllers, of_groups = applying.replica_rules, applying.controller_rules, applying.group_rules

    def release_with(*given: Any) -> Profile:
        profile = applying.release_with(*given)
        rules_of = profile.rules_of
        assignors = {name: asked.assignor(each) for name, each in profile.assignors.items()}
        return evolve(profile, assignors=assignors, rules_of=lambda *told: asked.rules(rules_of(*told)))

    with ExitStack() as patched:
        for where, name, wrapped in (
            (applying, "replica_rules", lambda *given: asked.rules(of_replicas(*given))),
            (applying, "controller_rules", lambda *given: asked.rules(of_controllers(*given))),
            (releases, "group_rules", lambda *given: asked.rules(of_groups(*given))),
            (releases, "release_with", release_with),
            (replica_fetchers, "truncation_for", asked.cut),
            (LeaderEpochs, "end_offset_for", lambda *given: asked.end_offset(*given)),
            (thread, "evolve", asked.evolved),
        ):
            patched.enter_context(patch.object(where, name, wrapped))
        yield asked
