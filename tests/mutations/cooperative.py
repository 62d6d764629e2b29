"""Breaks of the cooperative protocol and of KIP-429's page."""

from tests.mutations import Mutation

GROWTH = ("cooperative-scale-out-by-one:1",)

MUTATIONS = [
    Mutation(
        "kemu/protocol/assign/cooperative.py",
        "        if not sharing.transferring:\n            return sharing.assignment",
        "        if sharing:\n            return sharing.assignment",
        "cooperative",  # what moves is not withheld
        GROWTH,
    ),
    Mutation(
        "kemu/actors/consumer/rebalancing.py",
        "        self._membership.request_rejoin(Rejoin.REVOKED)\n",
        "",
        "liveness",  # a member that revoked does not come back
        ("cooperative-rolling-restart:1",),
    ),
    Mutation(
        "kemu/protocol/rebalancing/kip_429.py",
        "tuple(at for at in partitions if at not in claims or owner[at] == one),",
        "tuple(partitions),",
        "cooperative",  # the page's leader assigns what it only just revoked
        ("downgrade-by-one-bounce:1", "upgrade-by-two-bounces:1"),
    ),
    Mutation(  # a member's listener hears of each join, although nothing is revoked
        "kemu/protocol/rebalancing/rules.py",
        "    return tuple(one for one in owned if one[0] not in wanted) or None\n",
        "    return tuple(one for one in owned if one[0] not in wanted)\n",
        "lifecycle/callback",
        GROWTH,
    ),
]
