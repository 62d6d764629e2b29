"""Waits that take much longer than what they are for: nothing is wrong afterwards, it only takes too long."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # the join phase ends half a minute after the last member has joined
        "kemu/actors/coordinator/join_phase.py",
        "not initial and not self._is_over:\n            self._complete()\n",
        "not initial and not self._is_over:\n            self._start_timer(30_000)\n",
        "group-progress/join-unfinished",
        ("short_waits.toml:1",),
    ),
    Mutation(  # no member fetches before the cluster is 80 s old
        "kemu/actors/consumer/fetching.py",
        "at_us = max(client.available_at(leader.name), leader.not_before_us)\n",
        "at_us = max(client.available_at(leader.name), leader.not_before_us, 80_000_000)\n",
        "group-progress/records-unread",
        ("short_waits.toml:1",),
    ),
    Mutation(  # no member ever fetches one of the partitions that it owns
        "kemu/actors/consumer/fetching.py",
        "            if one.serving and not one.waits_for_metadata:\n",
        "            if one.serving and not one.waits_for_metadata and one.number != 3:\n",
        "group-progress/records-unread",
        ("short_waits.toml:1",),
    ),
    Mutation(  # no member ever asks for its position in one of the partitions that it owns
        "kemu/actors/consumer/positions.py",
        "if one.seeking is not Seeking.FETCHING}\n",
        "if one.seeking is not Seeking.FETCHING and one.number != 3}\n",
        "group-progress/no-position",
        ("short_waits.toml:1",),
    ),
    Mutation(  # a leader that is alone takes nobody into its ISR
        "kemu/actors/broker/follower_fetches.py",
        "                if isr is not None:\n",
        "                if isr is not None and len(isr) > 2:\n",
        "duties/out-of-isr",
        ("alone_in_sync.toml:1",),
    ),
]
