"""Breaks of replication and control. What past bugs show stands in ``tests/emulator/test_past_replica_bugs.py``."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(
        "actors/partition_states.py",
        "PartitionState(outcome.leader, each.state.leader_epoch + 1, outcome.isr, context.epoch)",
        "PartitionState(outcome.leader, each.state.leader_epoch, outcome.isr, context.epoch)",
        "leadership",  # an election that opens no new epoch
        ("broker-crash-and-return:1",),
    ),
]
