"""Past bugs of Kafka Streams: when instances ask for rebalances, and what they say of themselves.

Source: the issues named, in Apache Kafka's history; KIP-441.
"""

from kemu.emulator.past_bugs.bug import Past, PastBug, Where
from kemu.protocol.streams.registry import TASK_ASSIGNORS_FROM_NOTHING
from kemu.protocol.streams.releases import TaskRules

STREAMS = (
    PastBug(
        issue="KAFKA-10455",
        rule="probe-with-old-bytes",
        where=Where.STREAMS,
        fixed_in="2.6.1",
        summary="A probing rebalance asked for by a follower never happens, and its warm-ups are never promoted.",
        story=(
            "While a task is warmed up, one instance is told to ask for another rebalance after"
            " probing.rebalance.interval.ms, in which the warm-up may take the task over. A coordinator answers a"
            " follower that joins with the same bytes as before by the generation there is. An instance whose own"
            " tasks had not changed said the same as before: no rebalance came of it, however often it asked, and the"
            " warm-up stayed one."
        ),
        was="a member's metadata says what it has, and is the same as long as that is",
        today="it holds a byte that is another one each time a rebalance is asked for",
        past=Past(streams={"uses_nonce": False}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
    PastBug(
        issue="KAFKA-10362",
        rule="keep-checkpoint-when-resumed",
        where=Where.STREAMS,
        fixed_in="2.6.2",
        summary="State that a task had open when its process died is used again under exactly once.",
        story=(
            "Under exactly once a checkpoint says that state was closed cleanly: it is taken away when a task opens its"
            " state, so that after a crash everything is restored. A task that a rebalance takes is suspended and"
            " writes one. If the same rebalance gives it back it goes on where it was; its checkpoint stayed. After a"
            " crash the instance found it, and went on with state that held what was never committed. 2.3 to 2.5"
            " took it away; what came after them had forgotten to."
        ),
        was="a task that goes on with its state leaves the checkpoint where it is",
        today="it takes it away, as a task that opens its state does",
        past=Past(streams={"task_rules": TaskRules(forgets_when_resumed=False)}),
        caught_by="tasks",
        kind="open-state-kept",
    ),
    PastBug(
        issue="KAFKA-8187",
        rule="standby-tried-once",
        where=Where.STREAMS,
        fixed_in="2.2.2",
        summary="A standby whose directory another thread still holds is not begun, and nobody looks again.",
        story=(
            "The threads of an instance share its directories, one lock for each task. A thread that is to have a copy"
            " of a task which another thread has yet to close cannot begin it. It tried again for as long as active"
            " tasks of its own were being restored; then it went to work, and its standby was none until the next"
            " rebalance: no copy followed the changelog, though the application was told that one did."
        ),
        was="what is not begun is looked at until all active tasks run",
        today="until all tasks do, standbys too",
        past=Past(streams={"task_rules": TaskRules(retries_copies=False)}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
    PastBug(
        issue="KAFKA-13600",
        rule="restore-from-nothing",
        where=Where.STREAMS,
        fixed_in="3.2.0",
        summary="A task that nobody has caught up with goes to a client with nothing of it, past one with most of it.",
        story=(
            "The assignor of KIP-441 first draws up a balanced layout, and then lets those work who are caught up until"
            " the others are. Where nobody was within acceptable.recovery.lag, the layout was taken as it was: a task"
            " went to a client that had to restore all of it, while another one lacked a little more than allowed."
        ),
        was="without a client that is caught up a task goes where the balanced layout has it",
        today="it goes to the one that lacks least, and the other one warms up",
        past=Past(streams={"task_assignors": TASK_ASSIGNORS_FROM_NOTHING}),
        caught_by="tasks",
        kind="state-passed-over",
    ),
)
