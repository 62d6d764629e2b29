"""Past bugs of Kafka Streams: requests for rebalances, and the state of tasks.

Source: the issues named, in Apache Kafka's history; KIP-441.
"""

from kemu.emulator.past_bugs.bug import Past, PastBug, Where
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
            " probing.rebalance.interval.ms, in which the warm-up may become active. If a follower rejoins with"
            " unchanged bytes, the coordinator answers with the present generation. An instance with unchanged tasks"
            " sent the same bytes, so no rebalance followed."
        ),
        was="a member's metadata describes only its tasks, and is unchanged while the tasks are unchanged",
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
        summary="Under exactly-once, a restarted instance reuses state that a task had open when the process died.",
        story=(
            "Under exactly-once a checkpoint says that state was closed cleanly. A task deletes the checkpoint when"
            " it opens its state, so that a crash makes it restore everything. A task that a rebalance revokes is"
            " suspended and writes a checkpoint. If the same rebalance returned the task, the task resumed and its"
            " checkpoint stayed. After a crash, the instance found the checkpoint and continued with uncommitted"
            " state. 2.3 to 2.5 deleted the checkpoint; later releases did not."
        ),
        was="a resumed task leaves its checkpoint in place",
        today="a resumed task deletes its checkpoint, as a task that opens its state does",
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
            " copy of a task that another thread has yet to close. The thread retried the start only while its own"
            " active tasks were being restored. Afterwards the standby was not started before the next rebalance. No"
            " copy followed the changelog, although the application relied on a standby."
        ),
        was="missing copies are retried until all active tasks run",
        today="missing copies are retried until all tasks run, including standbys",
        past=Past(streams={"task_rules": TaskRules(retries_copies=False)}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
    PastBug(
        issue="KAFKA-13600",
        rule="restore-from-nothing",
        where=Where.STREAMS,
        fixed_in="3.2.0",
        summary=(
            "Without a caught-up client, a task moves to a client without state, although another client has most of"
            " the state."
        ),
        story=(
            "The assignor of KIP-441 first computes a balanced layout, and then assigns tasks to caught-up clients"
            " until other clients have caught up. If no client was within acceptable.recovery.lag, the assignor used"
            " the balanced layout unchanged. So a task moved to a client that had to restore all state, although"
            " another client lacked only slightly more than allowed."
        ),
        was="without a caught-up client a task follows the balanced layout",
        today="the task moves to the client with the least lag, and the other client warms up",
        past=Past(streams={"assignors_of": "KAFKA-13600"}),
        caught_by="tasks",
        kind="state-passed-over",
    ),
)
