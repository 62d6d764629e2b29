"""What Streams instances report: tasks through their lives, what leaders decided, who is leaving. See ``notes.groups``.

``application`` is the group; ``instance`` is the host; tasks are named "subtopology_partition".
"""

from kemu.protocol.wire.values import value


@value
class InstanceStarted:
    """An instance begins a life: who it is to leaders, how it is set, what its tasks are made of.

    ``process``: its process id in hexadecimal digits. ``changelogs``: of each subtopology, in order; "" without state.
    ``ready_lag``: how many records behind its end a copy counts as caught up, by its task assignor's own setting.
    ``imbalance``: what load the assignor leaves as it is, as a fraction of a fair one ("0.2"); "" where it evens out
    all it can. ``probing_us``: how long a leader that warms copies up waits until it looks again; 0 where none does.
    ``sources``: the topics that each subtopology reads, in order.
    """

    application: str
    instance: str
    process: str
    assignor: str
    threads: int
    weight: int
    standbys: int
    warmups: int
    ready_lag: int
    imbalance: str
    probing_us: int
    changelogs: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...] = ()


@value
class TaskBecame:
    """A copy of a task changed its state (or its role, and then perhaps not its state).

    ``role``: "active", "standby" or "learner". ``before``: "" for a copy that was not there. ``position``: the end of
    its state, an offset of the changelog. ``thread``: of the instance ("t1"), whose copy it is.
    """

    application: str
    instance: str
    member_id: str
    task: str
    role: str
    before: str
    state: str
    position: int
    thread: str = ""


@value
class TaskRestored:
    """A copy of a task applied records ``first .. last - 1`` of its changelog."""

    application: str
    instance: str
    task: str
    role: str
    first: int
    last: int
    thread: str = ""


@value
class LearnerReady:
    """A learner has caught up and may become active."""

    application: str
    instance: str
    task: str
    lag: int


@value
class StreamsJoined:
    """What a thread said of its tasks in its subscription; ``size`` is that of its metadata in bytes."""

    application: str
    instance: str
    assigned: tuple[str, ...]
    revoked: tuple[str, ...]
    learning: tuple[str, ...]
    ready: tuple[str, ...]
    leaving: bool
    size: int
    thread: str = ""


@value
class TasksSaid:
    """What an instance said of its tasks, as a leader read it, all its threads together."""

    process: str
    assigned: tuple[str, ...]
    revoked: tuple[str, ...]
    learning: tuple[str, ...]
    ready: tuple[str, ...]
    leaving: bool


@value
class TasksGiven:
    """What a leader gave an instance. ``being_learned``: of ``assigned``, those that others learn."""

    process: str
    assigned: tuple[str, ...]
    revoked: tuple[str, ...]
    learning: tuple[str, ...]
    being_learned: tuple[str, ...]
    standby: tuple[str, ...]
    shutdown: bool


@value
class TasksDecided:
    """A leader assigned tasks to instances (by process id); ``stateful`` are those of ``tasks`` that have state.

    ``size``: bytes of all the assignments. ``fresh``: the leader remembers no rebalance before. ``learners``: the
    members know KIP-429's learners.
    """

    application: str
    instance: str
    tasks: tuple[str, ...]
    stateful: tuple[str, ...]
    said: tuple[TasksSaid, ...]
    given: tuple[TasksGiven, ...]
    size: int
    fresh: bool
    learners: bool


@value
class InstanceLeaving:
    """An instance was told to hand over its tasks and go, or (``leaving`` false) to stay after all."""

    application: str
    instance: str
    leaving: bool


@value
class InstanceReleased:
    """A leaving instance was told that nothing is left to hand over: it closes."""

    application: str
    instance: str


@value
class ThreadReplaced:
    """A stream thread whose consumer failed is gone, and another of the same name is in its place (KIP-671)."""

    application: str
    instance: str
    thread: str
