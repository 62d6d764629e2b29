"""A world tells a recorder what happens; a trace writer is one of them."""

import io
from pathlib import Path

from kemu.emulator.chance import Seeded
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from kemu.emulator.facts import HostStarted
from kemu.emulator.runner import Run
from kemu.emulator.trace.recorder import MemoryRecorder, RecorderOfAll
from kemu.emulator.trace.rows import RECEIVED, SEND
from kemu.emulator.trace.traces import PacketRecord, Step, TraceWriter, WorldFact, facts_of, read_trace
from lab.bench.engine import steady
from tests.emulator.engine.toys import HEADER, Caller, Echo, Watcher, call

SECOND = 1_000_000


def test_memory_keeps_steps_packets_and_facts_in_order() -> None:
    recorder = MemoryRecorder()
    world = World(Seeded(1), recorder, latency_us=(200, 2_000))
    world.add_host("b0", {"b0": lambda life: Echo("b0")})
    world.add_host("c1", {"c1": lambda life: Caller("c1")})
    for host in world.hosts.values():
        world.start(host)
    call(world, 7)
    run_plain(world, SECOND)

    facts = [record.fact for record in recorder.records if isinstance(record, WorldFact)]
    assert facts == [HostStarted(host=name, life=1, kept_disk=True) for name in ("b0", "c1")]
    asked, answered = [record for record in recorder.records if isinstance(record, PacketRecord)]
    assert (asked.sender, asked.to, asked.api, asked.verdict) == ("c1", "b0", "Heartbeat", "sent")
    assert (answered.sender, answered.to) == ("b0", "c1")
    served = next(record for record in recorder.records if isinstance(record, Step) and record.event[0] == RECEIVED)
    assert (served.actor, served.event[1], served.at_us) == ("b0", asked.packet_id, asked.due_us)
    assert [row[:2] for row in served.effects] == [(SEND, answered.packet_id)]


def test_a_recorder_beside_the_trace_sees_what_the_file_holds(tmp_path: Path) -> None:
    """Both see one run of a whole cluster: the same records, the same facts as an observer."""
    recorder, watcher, sink = MemoryRecorder(), Watcher(), io.BytesIO()
    one = Run(steady(2, 4, 10), seed=3, sink=sink, observers=(watcher,), recorder=recorder)
    one.run_with(run_plain)
    one.writer.finish("holds", one.world.now_us)
    path = tmp_path / "run.trace"
    path.write_bytes(sink.getvalue())

    recorded = [record for record in read_trace(path).records() if isinstance(record, Step | PacketRecord | WorldFact)]
    assert recorder.records == recorded
    assert list(recorder.facts()) == list(facts_of(read_trace(path))) == watcher.facts


def test_several_recorders_are_told_the_same() -> None:
    first, second, writer = MemoryRecorder(), MemoryRecorder(), TraceWriter(None, HEADER)
    one = Run(steady(1, 1, 5), seed=1, recorder=RecorderOfAll(first, second, writer))
    one.run_with(run_plain)

    assert first.records == second.records
    assert len(first.records) > 100
    assert writer.digest() == one.writer.digest()
