"""Past bugs of Kafka Streams: requests for rebalances, and the state of tasks.

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
        summary="A probing rebalance requested by a follower never happens, and its warm-ups never become active.",
        story=(
            "While a task is warmed up, one instance has to request another rebalance after"
            " probing.rebalance.interval.ms, in which the warm-up may become active. A coordinator answers a follower"
            " that rejoins with the same bytes as before with the present generation. An instance whose own tasks had"
            " not changed sent the same bytes: no rebalance followed, however often it rejoined."
        ),
        was="a member's metadata describes its tasks, and stays the same while they do",
        today="the metadata has a byte that changes with each request for a rebalance",
        past=Past(streams={"uses_nonce": False}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
    PastBug(
        issue="KAFKA-10362",
        rule="keep-checkpoint-when-resumed",
        where=Where.STREAMS,
        fixed_in="2.6.2",
        summary="Under exactly-once, state that a task had open when its process died is used again.",
        story=(
            "Under exactly-once a checkpoint says that state was closed cleanly. A task deletes the checkpoint when"
            " it opens its state, so that everything is restored after a crash. A task that a rebalance revokes is"
            " suspended and writes a checkpoint. If the same rebalance returned the task, it resumed, and its"
            " checkpoint stayed. After a crash the instance found the checkpoint, and continued with uncommitted"
            " state. 2.3 to 2.5 deleted the checkpoint; later releases did not."
        ),
        was="a resumed task leaves its checkpoint in place",
        today="it deletes the checkpoint, as a task that opens its state does",
        past=Past(streams={"task_rules": TaskRules(forgets_when_resumed=False)}),
        caught_by="tasks",
        kind="open-state-kept",
    ),
    PastBug(
        issue="KAFKA-8187",
        rule="standby-tried-once",
        where=Where.STREAMS,
        fixed_in="2.2.2",
        summary="A standby whose directory another thread still holds is never started.",
        story=(
            "The threads of an instance share its directories, with one lock for each task. A thread cannot start a"
            " copy of a task that another thread has yet to close. The thread retried only while active tasks of"
            " its own were being restored. Then the thread began to process, and its standby was not started before the"
            " next rebalance. No copy followed the changelog, although the application assumed a standby."
        ),
        was="missing copies are retried until all active tasks run",
        today="they are retried until all tasks run, standbys included",
        past=Past(streams={"task_rules": TaskRules(retries_copies=False)}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
    PastBug(
        issue="KAFKA-13600",
        rule="restore-from-nothing",
        where=Where.STREAMS,
        fixed_in="3.2.0",
        summary="Without a caught-up client a task goes to a client without state, although another has most of it.",
        story=(
            "The assignor of KIP-441 first computes a balanced layout, and then assigns tasks to caught-up clients"
            " until the others have caught up. If no client was within acceptable.recovery.lag, the layout was used as"
            " it was. A task went to a client that had to restore all of it, although another client lacked only"
            " slightly more than allowed."
        ),
        was="without a caught-up client a task follows the balanced layout",
        today="it goes to the client with the least lag, and the other one warms up",
        past=Past(streams={"task_assignors": TASK_ASSIGNORS_FROM_NOTHING}),
        caught_by="tasks",
        kind="state-passed-over",
    ),
)
