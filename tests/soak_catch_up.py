"""KIP-333's mode under random scripts of its machines, and in whole clusters whose coordinators and members crash.

``python -m tests.soak_catch_up --scripts 1:1000 --seeds 1:150`` prints one line per case, and one for every script and
run that did not hold. ``tests/kips/test_kip_333.py`` does the same over a few of both.
"""

import argparse
from functools import partial

import attrs

from kemu.emulator.chance import Seeded
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.scenario import Scenario
from tests.actors.consumer.catch_up_scripts import run_script
from tests.soaking import made, report, said, seeds_of, standing, sweep

CLUSTERS = ("arranged", "replicated")
SESSIONS = (6, 10)
_SCENARIO = """
summary = "KIP-333's mode while members and coordinators crash"
duration = "100s"

[topics.events]
partitions = 4
rate = "8/s"

[producers.config]
emulated.batch.interval.ms = 1000

[groups.g]
topics = ["events"]
members = 3
static = {static}
start_spread = "2s"
assignors = ["{assignor}"]

[groups.g.config]
enable.parallel.rebalance = true
session.timeout.ms = {session}000
heartbeat.interval.ms = 2000
auto.commit.interval.ms = {interval}
emulated.process.us.per.record = {work}
max.poll.records = {most}
max.poll.interval.ms = 20000
"""
_REPLICATED = """
[brokers]
count = 3
[brokers.replication]
factor = 3
min_isr = 2
session = "6s"
lag = "6s"
[brokers.config]
"offsets.topic.num.partitions" = 3
"""


def drawn(cluster: str, seed: int) -> Scenario:
    """Three members and a plan by seed: crashes of members and coordinators, a second consumer's death, and faults."""
    draw = Seeded(seed).stream("catch-up soak")

    def one_of(*values: object) -> object:
        return values[draw.below(len(values))]

    text = _SCENARIO.format(
        static=one_of("true", "false"),
        assignor=one_of("range", "cooperative-sticky"),
        session=one_of(*SESSIONS),
        interval=one_of(1_000, 5_000, 15_000),
        work=one_of(1_000, 50_000, 150_000),
        most=one_of(1, 10, 500),
    )
    lines = []
    for _ in range(2 + draw.below(4)):
        at_s, member = 10 + draw.below(70), 1 + draw.below(3)
        kind = draw.below(8)
        for_s = 2 + draw.below(15)
        if kind < 4:
            lines.append(f'do = "crash"\nhost = "c{member}"\nfor = "{for_s}s"\nat = "{at_s}s"')
        elif kind < 6:
            lines.append(f'do = "kill-coordinator"\ngroup = "g"\nfor = "{10 + for_s}s"\nat = "{at_s}s"')
        elif kind < 7:
            lines.append(f'do = "stop-polling"\nhost = "c{member}"\nfor = "{20 + for_s}s"\nat = "{at_s}s"')
        else:
            lines.append(f'do = "fail-child-consumer"\nhost = "c{member}"\nfor = "{for_s}s"\nat = "{at_s}s"')
    text += "".join(f"\n[[plan]]\n{line}\n" for line in lines)
    if cluster == "replicated":
        text += _REPLICATED
    scenario = attrs.evolve(scenario_from_toml(text, name=f"catch-up-{cluster}"))
    return with_random_faults(scenario, seed, draw.below(3))


def run_one(cluster: str, seed: int, loop: str = "bare") -> RunResult:
    """One run."""
    return made(drawn(cluster, seed), seed=seed, loop=loop)


def one_seed(cluster: str, seed: int) -> tuple[str, str]:
    """The verdict, and what is wrong with it."""
    result = run_one(cluster, seed)
    return result.verdict + standing(result), "" if result.verdict == "holds" else said(result)


def one_script(seed: int) -> tuple[str, str]:
    """How a random script of one partition's machines ended."""
    try:
        run_script(seed)
    except AssertionError as why:
        return "violated", str(why).splitlines()[0] if str(why) else "an assertion of a machine"
    return "holds", ""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=seeds_of, default="1:1000")
    parser.add_argument("--seeds", type=seeds_of, default="1:150")
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    chosen = parser.parse_args()
    scripts = sweep([("random scripts", one_script)], chosen.scripts)
    names = [name for name in chosen.clusters.split(",") if name]
    runs = sweep([(name, partial(one_seed, name)) for name in names], chosen.seeds)
    report(line for lines in (scripts, runs) for line in lines)


if __name__ == "__main__":
    main()
