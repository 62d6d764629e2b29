"""Members that their coordinator fences without a cause, and excuses that must not cover it."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # a static member that restarts during a rebalance is fenced by the coordinator that knows its new id
        "kemu/actors/coordinator/static.py",
        "        if shared.state is PREPARING:\n            self._phase.complete_if_all_joined()\n",
        (
            "        if shared.state is PREPARING:\n"
            "            self._phase.refuse_parked(member_id, ErrorCode.FENCED_INSTANCE_ID, member_id)\n"
        ),
        "liveness/member-failed",
        ("static_restart_while_joining.toml:2",),
    ),
]
