"""Breaks of the trace file and its rows, each with the test that is there for it."""

from tests.mutations import Mutation

TRACES = "tests/emulator/trace/test_traces.py::"
ROWS = "tests/emulator/trace/test_rows.py::"

MUTATIONS = [
    Mutation(
        "kemu/emulator/trace/blocks.py",
        "    return payload if zlib.crc32(payload) == crc else",
        "    return payload if crc else",
        TRACES + "test_a_flipped_byte_never_gives_a_wrong_record",
    ),
    Mutation(
        "kemu/emulator/trace/blocks.py",
        "                if (whole := _next_whole_block(file, offset, size)) is not None:",
        "                if (whole := None) is not None:",
        TRACES + "test_damage_in_the_middle_is_an_error_that_names_file_and_offset",
    ),
    Mutation(
        "kemu/emulator/trace/traces.py",
        "            self._hash.update(payload)\n",
        "            self._hash.update(payload[:4000])\n",
        TRACES + "test_the_digest_depends_on_every_record_and_on_nothing_else",
    ),
    Mutation(
        "kemu/emulator/trace/rows.py",
        "            self._sent[packet_id] = packet._replace(connection=connection)",
        "            self._sent[packet_id] = packet",
        ROWS + "test_a_received_message_is_rebuilt_from_its_senders_step_on_the_networks_connection",
    ),
]
