"""Breaks of fetch sessions (KIP-227), on both sides."""

from tests.mutations import Mutation

PROPERTY = "tests/actors/broker/test_fetch_sessions.py::test_the_brokers_session_is_the_readers_after_any_exchange"

MUTATIONS = [
    Mutation(  # a reader forgets nothing
        "kemu/actors/fetch_session.py",
        "        forgotten = () if kept == len(before) else tuple(",
        "        forgotten = () if before else tuple(",
        PROPERTY,
    ),
    Mutation(  # a reader continues its session although the last answer is missing
        "kemu/actors/fetch_session.py",
        '        """The last fetch has no answer: the next one closes this session and asks for a new one."""\n'
        "        self.epoch = FULL_EPOCH\n",
        "        self.epoch = epoch_after(self.epoch)\n",
        PROPERTY,
    ),
    Mutation(  # ids of a broker's former life are given again
        "kemu/actors/broker/fetch_sessions.py",
        "        self._last_id = life * IDS_OF_A_LIFE\n",
        "        self._last_id = 0\n",
        "tests/actors/broker/test_fetch_sessions.py"
        "::test_a_wrong_epoch_and_an_unknown_session_are_errors_of_the_whole_fetch",
    ),
    Mutation(  # the end of an error is no news
        "kemu/actors/broker/fetch_sessions.py",
        "                known.pop(at, None)\n                continue\n",
        "                continue\n",
        "tests/actors/broker/test_fetch_sessions.py::test_partitions_with_records_are_served_last_in_the_next_fetch",
    ),
    Mutation(  # a changed offset is not taken: the leader sends the same records again
        "kemu/actors/broker/fetch_sessions.py",
        "            rows[at] = row\n        for at in request.forgotten",
        "            rows.setdefault(at, row)\n        for at in request.forgotten",
        "broken",
        ("replicated-steady:1",),
    ),
]
