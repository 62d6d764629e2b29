"""Notes of Streams instances: states of tasks, leaders' decisions, leaving instances. See ``notes.groups``.

``application`` is the group; ``instance`` is the host; tasks have names of the form "subtopology_partition".
"""

from kemu.protocol.wire.values import value


@value
class InstanceStarted:
    """An instance started. The note has the instance's identity for leaders, its configuration, and the topics of its
    tasks.

    ``process``: the instance's process id in hexadecimal digits. ``changelogs``: the changelog of each subtopology, in
    order; "" without state. ``ready_lag``: the largest lag in records of a caught-up copy, a setting of the task
    assignor. ``imbalance``: the imbalance of load that the assignor accepts, as a fraction of a fair load ("0.2"). ""
    means that the assignor balances as far as possible. ``probing_us``: the interval of probing rebalances of a leader
    that warms up copies; 0 without probing rebalances. ``sources``: the topics that each subtopology reads, in order.
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
    """A copy of a task changed its state or its role.

    ``role``: "active", "standby" or "learner". ``before``: "" for a new copy. ``position``: the changelog offset up to
    which the copy's state is complete. ``thread``: the instance's thread with the copy ("t1").
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
    """The content about tasks in a thread's subscription; ``size``: the bytes of its metadata."""

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
    """An instance's tasks according to the subscriptions of all its threads, as the leader read them."""

    process: str
    assigned: tuple[str, ...]
    revoked: tuple[str, ...]
    learning: tuple[str, ...]
    ready: tuple[str, ...]
    leaving: bool


@value
class TasksGiven:
    """A leader's assignment to an instance. ``being_learned``: the tasks in ``assigned`` that other instances learn."""

    process: str
    assigned: tuple[str, ...]
    revoked: tuple[str, ...]
    learning: tuple[str, ...]
    being_learned: tuple[str, ...]
    standby: tuple[str, ...]
    shutdown: bool


@value
class TasksDecided:
    """A leader assigned tasks to instances (by process id). ``stateful``: the tasks in ``tasks`` that have state.

    ``size``: the bytes of all assignments. ``fresh``: whether the leader remembers no earlier rebalance. ``learners``:
    whether the members know KIP-429's learners.
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
    """An instance received the order to move its tasks to other instances and leave, or (``leaving`` False) to stay."""

    application: str
    instance: str
    leaving: bool


@value
class InstanceReleased:
    """A leaving instance learned that all its tasks have moved, and closes."""

    application: str
    instance: str


@value
class ThreadReplaced:
    """Another thread of the same name replaced a stream thread whose consumer failed (KIP-671)."""

    application: str
    instance: str
    thread: str
