"""One-line breaks of groups with the consumer protocol (KIP-848), each noticed while a whole cluster runs."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # the target is ahead of its group
        "kemu/actors/coordinator/consumer_group/heartbeats.py",
        "        change.add(TargetEpochRecord(group.epoch, ",
        "        change.add(TargetEpochRecord(group.epoch + 1, ",
        "consumer-protocol/epoch-fell",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # a member gets partitions that another member holds
        "kemu/protocol/consumer_group/reconciling.py",
        "        if is_free(partition) or (",
        "        if True or is_free(partition) or (",
        "consumer-protocol/held-twice",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # the coordinator does not wait until a member has given up its partitions
        "kemu/protocol/consumer_group/reconciling.py",
        "    return owned is None or any(partition in some for partition in owned)\n",
        "    return False\n",
        "consumer-protocol/assigned-too-soon",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # a commit with the member's epoch is refused
        "kemu/actors/coordinator/modern_group.py",
        "        if epoch == current.epoch:\n            return _NONE\n",
        "        if epoch == current.epoch:\n            return ErrorCode.STALE_MEMBER_EPOCH\n",
        "consumer-protocol/stale-commit",
        ("consumer-protocol-rolling-restart:1",),
    ),
]
