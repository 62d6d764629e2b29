"""The controller part of a broker: every broker has one, and the winner of the election controls the cluster.

The controller has one queue and runs one task at a time. Watches, brokers' answers, timers and admins only queue tasks.
A task runs to its end, waiting for the store where necessary, before the next task begins. So a task reads the current
state from the store, not the state at the time when the task was queued.

The part owns the process's session in the store. The part registers the broker (the registration's czxid is the broker
epoch), and is a candidate in the election with the same session. So the broker loses the registration and the
controllership together. When the session expires, all waiting tasks are dropped, and the controller resigns without a
write to the store. A new session begins with the registration.

Fences: every write checks the version of /controller_epoch from the controller's election. Every request
contains the controller epoch and the broker's epoch. Source: Kafka 2.8 ``KafkaController``.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kemu.actors.controller.admin_waits import AdminWaits, DelayedReply
from kemu.actors.controller.all_at_once import AllAtOnceReassignment
from kemu.actors.controller.batch import BatchNotEmpty, BatchUnderWay, ControlBatch
from kemu.actors.controller.brokers import BrokerChanges
from kemu.actors.controller.channels import ControllerChannels
from kemu.actors.controller.configs import DynamicConfigs
from kemu.actors.controller.context import ControllerContext
from kemu.actors.controller.dispatch import ControllerTimer, Dispatch, Job, Part, Task
from kemu.actors.controller.failover import Failover
from kemu.actors.controller.isr_alterations import IsrAlterations
from kemu.actors.controller.partition_states import PartitionStates
from kemu.actors.controller.reassignment import Reassignment
from kemu.actors.controller.replica_states import ReplicaStates
from kemu.actors.controller.reports import BrokerReports
from kemu.actors.controller.rules import RULES, ControllerRules
from kemu.actors.controller.topic_deletion import TopicDeletion
from kemu.actors.controller.topics import REBALANCE, TopicChanges
from kemu.actors.controller.transactions import (
    ControllerMoved,
    ControllerStore,
    StoreRefused,
    ThreadBusy,
    Work,
    ask,
    ask_one,
    create,
    delete,
    exists,
    expect,
    get,
    set_data,
)
from kemu.actors.injection import Injections
from kemu.actors.machine import (
    US_PER_MS,
    Caller,
    Draws,
    Event,
    LinkDown,
    Machine,
    Received,
    TimerFired,
    Told,
    caller_of,
)
from kemu.actors.store.session import SessionState, StoreSession
from kemu.protocol.commands import AnswerNext, FailLogDir, HoursPass, Start
from kemu.protocol.config import ControllerConfig
from kemu.protocol.draws import CALM
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.local import BrokerSession, LeaveStore, LeaveStoreReply
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.refusals import REFUSALS, refusal
from kemu.protocol.messages.store import (
    CreateMode,
    StoreCode,
    StoreOp,
    StoreOpKind,
    Transaction,
    WatchEvent,
    WatchEventKind,
)
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.names import STORE, ActorName, host_of
from kemu.protocol.nodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    PERSISTENT_ROOTS,
    broker_data,
    broker_path,
    controller_data,
    epoch_data,
    read_controller,
    read_epoch,
)
from kemu.protocol.notes.replication import (
    BecameController,
    BrokerFenced,
    BrokerRegistered,
    ControllerResigned,
    ControllerWriteRefused,
    StateChangeRefused,
)
from kemu.protocol.replication import ReassignmentAlgorithm

NO_CONTROLLER = -1
AnyPart = TypeVar("AnyPart", bound=Part)

BUSY = (ControllerTimer.BUSY,)
RETRY_REGISTRATION = (ControllerTimer.REGISTER,)
REGISTER_BACKOFF_US = 1_000_000
"""The wait before another attempt while the registration of the broker's former session exists. In Kafka the process
ends with an error instead, and a supervisor restarts the process.
"""
LEAVE_TIMEOUT_US = 5_000_000
"""The longest time that a stopping process waits for the end of its session."""


class Controller(Machine):
    """The controller part. ``name``: for example ``b0/controller``; ``broker_id``: Kafka's id of the broker.

    Args:
        rack: the broker's rack for its registration.
        min_insync_replicas: the default for topics without their own setting, from the broker's start configuration.
        bad_group_settings: settings of a group -> the reason why they are invalid, or ""; None before 4.0.
        store: the metadata store's actor.
        rules: the decisions that past bugs change.
        draws: the random variation of durations.
        versions: the message versions that the broker offers to clients.
    """

    def __init__(
        self,
        name: ActorName,
        broker_id: int,
        config: ControllerConfig,
        *,
        rack: str | None = None,
        min_insync_replicas: int = 1,
        bad_group_settings: Callable[[Mapping[str, str]], str] | None = None,
        store: ActorName = STORE,
        rules: ControllerRules = RULES,
        draws: Draws = CALM,
        versions: SpokenVersions = LATEST,
    ) -> None:
        super().__init__(name)
        self._versions = versions
        self.min_insync_replicas = min_insync_replicas
        self.bad_group_settings = bad_group_settings
        self.broker_id = broker_id
        self.config = config
        self.rules = rules
        self.draws = draws
        self.rack = rack
        self.broker = host_of(name)
        self.active_id = NO_CONTROLLER
        """The controller's broker id, as far as this broker knows."""
        self.broker_epoch = -1
        self.session = StoreSession(
            self,
            self,
            store=store,
            timeout_ms=config.zookeeper_session_timeout_ms,
            max_in_flight=config.zookeeper_max_in_flight_requests,
            draws=draws,
        )
        self.channels = ControllerChannels(
            self,
            self._answered,
            timeout_us=config.controller_socket_timeout_ms * US_PER_MS,
            backoff_us=config.emulated_send_backoff_ms * US_PER_MS,
        )
        self._reset_state()
        self.partitions = PartitionStates(self)
        self.replicas = ReplicaStates(self)
        self.failover = Failover(self)
        self.waits = AdminWaits(self)
        self._injections = Injections(self)
        self.dispatch = Dispatch()
        self._registration = Job("register", self._register_and_elect, True)
        self.configs = self.add(DynamicConfigs(self))
        self.deletion = self.add(TopicDeletion(self))
        self.brokers = self.add(BrokerChanges(self))
        self.topics = self.add(TopicChanges(self))
        self.reports = self.add(BrokerReports(self))
        self.isr_alterations = self.add(IsrAlterations(self))
        at_once = rules.reassignment is ReassignmentAlgorithm.ALL_AT_ONCE
        self.reassignment = self.add(AllAtOnceReassignment(self) if at_once else Reassignment(self))
        self.add(self)
        self._queue: deque[Task] = deque()
        self._task: Task | None = None
        self._work: Work[Any] | None = None
        self._busy = False
        """Whether the running task waits for its own work, not for the store."""
        self._former_sessions: dict[int, None] = {}
        self._leaving: Caller | None = None

    def add(self, part: AnyPart) -> AnyPart:
        """Add a part; it gets its events after the parts that were added before."""
        part.subscribe(self.dispatch)
        return part

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to the events of every controller part, active or not."""
        to.on_watch(CONTROLLER, Job("reelect", self._reelect, True), WatchEventKind.NODE_DELETED)
        others = [kind for kind in WatchEventKind if kind is not WatchEventKind.NODE_DELETED]
        to.on_watch(CONTROLLER, Job("controller-change", self._controller_change, True), *others)
        to.on_timer(ControllerTimer.REGISTER, self._registration)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as the broker knows."""
        return self.active_id == self.broker_id

    @property
    def request_version(self) -> int:
        """The version of the request that the running task answers; -1 for tasks without a request."""
        caller = self._task.caller if self._task is not None else None
        return caller.version if caller is not None else -1

    def _reset_state(self) -> None:
        """Start with empty state: when the process starts, and after every resignation."""
        self.context = ControllerContext()
        self.store = ControllerStore(self.context, self.rules)
        self.batch = ControlBatch(self.broker_id, self.context, self.rules, self.channels.send)

    # --- events ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """React to events of the session and the channels, to requests and timers. Then start the next task if no task
        is running.
        """
        if not (self.session.handle(event) or self.channels.handle(event) or self.waits.handle(event)):
            self._other(event)
        while self._work is None and self._queue:
            self._begin(self._queue.popleft())

    def _other(self, event: Event) -> None:
        match event:
            case Received(message=LeaveStore()):
                self._leave(caller_of(event))
            case Received(message=ApiVersions()):
                self.reply(caller_of(event), versions_reply(self._versions))
            case Received(message=message):
                if type(message) in REFUSALS:
                    error = self._injections.take(type(message).__name__, event.peer)
                    if error is not None:
                        self.reply(caller_of(event), refusal(message, error, event.version))
                        return
                # Other messages: an acknowledgement of the broker part, or an answer to a former controller's request.
                self._later(self.dispatch.of_request(message, caller_of(event), self.now_us))
            case TimerFired(key=(ControllerTimer.BUSY,)):
                self._busy = False
                self._advance(())
            case TimerFired(key=(timer,)):
                self._later(self.dispatch.of_timer(timer))
            case Told(command=Start()):
                self.session.open()
            case Told(command=FailLogDir()):
                self._later(Task(Job("log-dir-failed", self.reports.log_dir_failed, True)))
            case Told(command=AnswerNext() as command):
                self._injections.arm(command)
            case Told(command=HoursPass()):
                self.session.hours_pass()
                self.topics.hours_pass()
            case LinkDown():
                pass  # a client has closed its connection
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def session_opened(self, session_id: int) -> None:
        """Register in the new session, then try to become the controller."""
        self._later(Task(self._registration))

    def watch_fired(self, event: WatchEvent) -> None:
        """Queue the tasks that are subscribed to the changed node."""
        self._queue.extend(self.dispatch.of_watch(event))

    def _answered(self, broker: int, request: object, reply: object) -> None:
        self.waits.answered(broker, request, reply)
        self._later(self.dispatch.of_answer(broker, request, reply))

    def right_after(self, job: Job, *about: object) -> None:
        """Run this job next, after the running task has ended and the sender of its request has the answer."""
        self._queue.appendleft(Task(job, about))

    def has_told(self, topic: str) -> bool:
        """Whether the metadata of this broker has the topic."""
        return self.waits.knows(topic)

    # --- tasks -------------------------------------------------------------------------------------------------

    def _later(self, task: Task | None) -> None:
        if task is not None:
            self._queue.append(task)

    def _begin(self, task: Task) -> None:
        if not task.job.by_all_brokers and not self.is_active:
            self._not_controller(task)
            return
        self._task = task
        self._work = task.job.do(*task.about)
        self._advance(None)

    def _advance(self, results: Any) -> None:
        work = self._work
        assert work is not None
        try:
            wanted = work.send(results)
        except StopIteration as end:
            task, self._task, self._work = self._task, None, None
            if task is not None and isinstance(end.value, DelayedReply):
                self.waits.hold(task, end.value)
            elif task is not None and task.caller is not None:
                self.reply(task.caller, end.value)
        except ControllerMoved:
            self._fail(Task(Job("moved", self._moved, True)))
        except (BatchUnderWay, BatchNotEmpty) as error:
            self._fail(Task(Job("give-up", self._give_up, True), (str(error),)))
        except StoreRefused as error:
            self.note(
                StateChangeRefused(what=self._task.job.name if self._task else "", old="", new="", why=str(error))
            )
            self._fail(None)
        else:
            if isinstance(wanted, ThreadBusy):
                self._busy = True
                self.start_timer(BUSY, wanted.us)
            else:
                self.session.submit(wanted, self._advance)

    def _fail(self, then: Task | None) -> None:
        """End the running task early; the sender of its request, if any, gets NOT_CONTROLLER."""
        task, self._task, self._work = self._task, None, None
        if task is not None:
            self._not_controller(task)
        if then is not None:
            self._queue.appendleft(then)

    def _not_controller(self, task: Task) -> None:
        if task.caller is not None:
            (request,) = task.about
            self.reply(task.caller, refusal(request, ErrorCode.NOT_CONTROLLER, task.caller.version))

    def _preempt(self) -> None:
        """Drop the running task and all queued tasks."""
        if self._work is not None:
            self._work.close()
        if self._busy:
            self._busy = False
            self.stop_timer(BUSY)
        waiting = [*([self._task] if self._task is not None else []), *self._queue]
        self._task, self._work = None, None
        self._queue.clear()
        if self.rules.answers_preempted:
            for task in waiting:
                self._not_controller(task)

    # --- sessions ----------------------------------------------------------------------------------------------

    def session_expired(self) -> None:
        """Resign: the registration and the controllership are lost with the session."""
        self._preempt()
        was_active, self.active_id = self.is_active, NO_CONTROLLER
        if was_active:
            self._resign("the session expired")
        if self.broker_epoch >= 0:
            self.note(BrokerFenced(broker_id=self.broker_id, broker_epoch=self.broker_epoch))
            self.request(self.broker, BrokerSession(session_id=0, broker_epoch=self.broker_epoch), 0)
        self.session.open()

    def _leave(self, caller: Caller) -> None:
        self._preempt()
        self._leaving = caller
        was_active, self.active_id = self.is_active, NO_CONTROLLER
        if was_active:
            self._resign("the process ends")
        self.stop_timer(RETRY_REGISTRATION)
        self.session.close(LEAVE_TIMEOUT_US)

    def session_closed(self, code: StoreCode) -> None:
        """Report that the process may end now."""
        assert self._leaving is not None
        self.reply(self._leaving, LeaveStoreReply(code=code))

    def _register_and_elect(self) -> Work[None]:
        if self.session.state is not SessionState.CONNECTED and self.session.state is not SessionState.CONNECTING:
            return
        session_id = self.session.id
        yield from ask([create(path) for path in _with_parents(PERSISTENT_ROOTS)])
        yield from self.configs.start()
        registered = yield from self._register(session_id)
        if not registered:
            return
        self._former_sessions[session_id] = None
        self.note(BrokerRegistered(broker_id=self.broker_id, broker_epoch=self.broker_epoch))
        self.request(self.broker, BrokerSession(session_id=session_id, broker_epoch=self.broker_epoch), 0)
        yield from self._reelect()

    def _register(self, session_id: int) -> Work[bool]:
        """Register the broker under this session. Source: ``KafkaZkClient.CheckedEphemeral``."""
        path = broker_path(self.broker_id)
        while True:
            made = yield from ask_one(create(path, broker_data(self.broker, self.rack), CreateMode.EPHEMERAL))
            if made.code is StoreCode.NODE_EXISTS:
                made = yield from ask_one(get(path))
                if made.code is StoreCode.NO_NODE:
                    continue
                if made.ephemeral_owner != session_id:
                    if made.ephemeral_owner not in self._former_sessions:
                        self.start_timer(RETRY_REGISTRATION, REGISTER_BACKOFF_US)
                        return False
                    if not self.rules.registers_over_own_former_session:
                        return False
                    yield from ask_one(delete(path, made.version))
                    continue
            self.broker_epoch = expect(made).czxid
            return True

    # --- election ----------------------------------------------------------------------------------------------

    def _controller_change(self) -> Work[None]:
        """Read the current controller, set a watch on it, and resign if the controller is another broker."""
        was_active = self.is_active
        yield from ask_one(exists(CONTROLLER, watch=True))
        self.active_id = yield from self._read_controller()
        if was_active and not self.is_active:
            self._resign(f"broker {self.active_id} controls" if self.active_id != NO_CONTROLLER else "nobody controls")

    def _reelect(self) -> Work[None]:
        yield from self._controller_change()
        yield from self._elect()

    def _elect(self) -> Work[None]:
        """Try to become the controller. Source: ``KafkaZkClient.registerControllerAndIncrementControllerEpoch``."""
        if self.active_id != NO_CONTROLLER:
            return
        epoch, version = yield from self._read_epoch()
        mine = epoch + 1
        claim = create(CONTROLLER, controller_data(self.broker_id, self.now_us // US_PER_MS), CreateMode.EPHEMERAL)
        (answer,) = yield [Transaction(ops=(claim, set_data(CONTROLLER_EPOCH, epoch_data(mine), version)))]
        if answer.code is StoreCode.OK:
            version = answer.results[1].version
        elif answer.code in (StoreCode.NODE_EXISTS, StoreCode.BAD_VERSION):
            # Another broker won; or this broker won, and the answer was lost.
            self.active_id = yield from self._read_controller()
            now, version = yield from self._read_epoch()
            if not self.is_active or now != mine:
                self.active_id = self.active_id if not self.is_active else NO_CONTROLLER
                return
        else:
            raise StoreRefused(f"the election: {answer.code.name}")
        self.active_id = self.broker_id
        self.context.epoch, self.context.epoch_zk_version = mine, version
        self.note(BecameController(broker_id=self.broker_id, controller_epoch=mine))
        try:
            yield from self.failover.take_over()
        except StoreRefused as error:
            yield from self._give_up(str(error))

    def _read_controller(self) -> Work[int]:
        found = yield from ask_one(get(CONTROLLER))
        return read_controller(found.data) if found.code is StoreCode.OK else NO_CONTROLLER

    def _read_epoch(self) -> Work[tuple[int, int]]:
        """The controller epoch and its node's version; 0 in a new cluster."""
        while True:
            found = yield from ask_one(get(CONTROLLER_EPOCH))
            if found.code is StoreCode.OK:
                return read_epoch(found.data), found.version
            yield from ask_one(create(CONTROLLER_EPOCH, epoch_data(0)))

    def _moved(self) -> Work[None]:
        """Resign: the store refused a write because another controller was elected."""
        epoch = self.context.epoch
        self.note(ControllerWriteRefused(broker_id=self.broker_id, controller_epoch=epoch, path=CONTROLLER_EPOCH))
        if self.rules.adopts_newest_epoch:
            self.batch.clear()
            self.context.epoch, self.context.epoch_zk_version = yield from self._read_epoch()
            return
        yield from self._controller_change()

    def _give_up(self, why: str) -> Work[None]:
        """Resign after an internal error, and delete the controller's node so that another controller is elected."""
        was_active, version = self.is_active, self.context.epoch_zk_version
        self.active_id = yield from self._read_controller()
        is_controller_node_ours = self.is_active
        if was_active:
            self._resign(why)
        if is_controller_node_ours:
            self.active_id = NO_CONTROLLER
            fence = StoreOp(kind=StoreOpKind.CHECK, path=CONTROLLER_EPOCH, version=version)
            yield [Transaction(ops=(fence, delete(CONTROLLER)))]

    def _resign(self, why: str) -> None:
        self.note(ControllerResigned(broker_id=self.broker_id, controller_epoch=self.context.epoch, why=why))
        self.stop_timer(REBALANCE)
        self.channels.remove_all()
        self.waits.clear()
        self._reset_state()


def _with_parents(paths: tuple[str, ...]) -> list[str]:
    """The paths and all paths above them, parents first."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        found.update(dict.fromkeys("/".join(parts[:end]) for end in range(2, len(parts) + 1)))
    return list(found)
