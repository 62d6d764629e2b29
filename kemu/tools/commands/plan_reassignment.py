"""``kemu plan-reassignment`` prints the batches of a partition reassignment, without a cluster."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kemu.protocol.names import TopicPartition
from kemu.protocol.reassign.moves import UNLIMITED, Limits
from kemu.protocol.reassign.plans import Plan, plan_reassignment
from kemu.protocol.reassign.readings import DEFAULT_POLICY, POLICIES
from kemu.tools.errors import BadInput
from kemu.tools.files import write_text
from kemu.tools.kafka_files.reassignment import BadReassignment, read_reassignment, reassignment_json
from kemu.tools.report.layout import print_lines

_LIMIT = click.IntRange(min=1, max=UNLIMITED)


def _brokers(ctx: click.Context, param: click.Parameter, value: str | None) -> frozenset[int] | None:
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise click.BadParameter(f"{value!r} is no list of broker ids such as 0,1,2")
    return frozenset(int(part) for part in parts)


def _policies() -> str:
    return " ".join(f"{name}: {policy.summary}." for name, policy in POLICIES.items())


@click.command("plan-reassignment", epilog=f"Policies. {_policies()}")
@click.option(
    "--current", required=True, metavar="FILE", help="File with the current assignment, as printed by --generate."
)
@click.option("--target", required=True, metavar="FILE", help="File with the target assignment, as for --execute.")
@click.option(
    "--replica-limit",
    type=_LIMIT,
    default=UNLIMITED,
    metavar="N",
    help="Maximum number of replicas added to a partition in a batch.",
)
@click.option(
    "--partition-limit", type=_LIMIT, default=UNLIMITED, metavar="N", help="Maximum number of partitions in a batch."
)
@click.option(
    "--leader-limit", type=_LIMIT, default=UNLIMITED, metavar="N", help="Maximum number of moved leaders in a batch."
)
@click.option("--min-isr", type=click.IntRange(1, 32767), default=1, show_default=True, help="min.insync.replicas.")
@click.option("--online", callback=_brokers, metavar="0,1,2", help="Brokers that are up (default: all).")
@click.option("--policy", type=click.Choice(list(POLICIES)), default=DEFAULT_POLICY, show_default=True)
@click.option("--format", "form", type=click.Choice(["text", "json", "kafka"]), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default="reassignment", show_default=True, metavar="DIR",
              help="With --format kafka: the folder for one file per batch.")  # fmt: skip
def plan_reassignment_command(
    current: str,
    target: str,
    replica_limit: int,
    partition_limit: int,
    leader_limit: int,
    min_isr: int,
    online: frozenset[int] | None,
    policy: str,
    form: str,
    out: Path,
) -> None:
    """Plan a partition reassignment in batches (KIP-435), without a run.

    The files of --current and --target are files of kafka-reassign-partitions.sh. A batch begins when all replicas
    that the previous batch added are in sync. Without limits, the plan is one KIP-455 reassignment. "--format kafka"
    writes one file per batch for kafka-reassign-partitions.sh. Verify each batch (--verify) before the next one.
    """
    limits = Limits(replica_limit, partition_limit, leader_limit)
    before, plan = planned(current, target, limits, min_isr, online, policy)
    if form == "kafka":
        _write_batches(plan, out)
    elif form == "json":
        click.echo(json.dumps(as_json(plan, limits, min_isr, policy)))
    else:
        print_lines(_as_text(plan, before))


def planned(
    current: str,
    target: str,
    limits: Limits,
    min_isr: int = 1,
    online: frozenset[int] | None = None,
    policy: str = DEFAULT_POLICY,
) -> tuple[dict[TopicPartition, tuple[int, ...]], Plan]:
    """Return the replicas in the file ``current``, and the plan that leads to the file ``target``.

    Raises:
        BadInput: lists the mistakes of the files.
    """
    try:
        before, wanted = read_reassignment(current), read_reassignment(target)
        missing = [at for at in wanted if at not in before]
        if missing:
            raise BadReassignment(*(f"{target}: {topic}-{number}: is not in {current}" for topic, number in missing))
    except BadReassignment as error:
        raise BadInput(str(error)) from None
    return before, plan_reassignment(before, wanted, limits=limits, min_isr=min_isr, online=online, policy=policy)


def as_json(plan: Plan, limits: Limits, min_isr: int, policy: str) -> dict[str, Any]:
    """The plan as values for JSON: batches, the end of the plan, and waiting partitions with reasons."""
    return {
        "policy": policy,
        "limits": {
            "replica": limits.replica_movements,
            "partition": limits.partition_movements,
            "leader": limits.leader_movements,
        },
        "min_isr": min_isr,
        "steps": [
            {
                "partitions": [
                    {
                        "topic": each.at[0],
                        "partition": each.at[1],
                        "replicas": list(each.step.replicas),
                        "adding": list(each.step.add),
                        "removing": list(each.step.drop),
                        "leader": each.leader,
                    }
                    for each in batch
                ]
            }
            for batch in plan.batches
        ],
        "ends": "waiting" if plan.waiting else "complete",
        "waiting": [
            {"topic": each.at[0], "partition": each.at[1], "replicas": list(each.replicas), "why": each.why}
            for each in plan.waiting
        ],
    }


def _write_batches(plan: Plan, folder: Path) -> None:
    """Write one file per batch into an empty folder.

    Raises:
        BadInput: the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadInput(f"{folder}: is not empty; name another folder with --out")
        for number, batch in enumerate(plan.batches, 1):
            path = folder / f"batch-{number:04}.json"
            write_text(path, reassignment_json((each.at, each.step.replicas) for each in batch))
            click.echo(str(path))
    except OSError as error:
        raise BadInput(f"{error.filename or folder}: {error.strerror}") from error
    for each in plan.waiting:
        click.echo(f"waits: {each.at[0]}-{each.at[1]}: {each.why}", err=True)


def _as_text(plan: Plan, before: Mapping[TopicPartition, tuple[int, ...]]) -> Iterator[str]:
    """The lines of a plan: each batch with a line for each partition, and the end of the plan."""
    now = dict(before)
    copies = 0
    for number, batch in enumerate(plan.batches, 1):
        receives = Counter(broker for each in batch for broker in each.step.add)
        moved = sum(each.step.moves_leader for each in batch)
        load = ", ".join(f"{broker}: {count}" for broker, count in sorted(receives.items()))
        copies += receives.total()
        yield (
            f"batch {number}: {_count(len(batch), 'partition')}, {_count(receives.total(), 'replica')} copied"
            + (f" (to broker {load})" if load else "")
            + f", {_count(moved, 'leader')} moved"
        )
        for each in batch:
            changes = [f"+{broker}" for broker in each.step.add] + [f"-{broker}" for broker in each.step.drop]
            leader = f"leader {each.leader}" if each.leader >= 0 else "no leader"
            what = " ".join(changes) or "order"
            yield (
                f"  {each.at[0]}-{each.at[1]}  {_list(now[each.at])} -> {_list(each.step.replicas)}  {what}  {leader}"
            )
            now[each.at] = each.step.replicas
    for waiting in plan.waiting:
        yield f"waits: {waiting.at[0]}-{waiting.at[1]} stays at {_list(waiting.replicas)}: {waiting.why}"
    ends = f"{_count(len(plan.waiting), 'partition')} waiting" if plan.waiting else "complete"
    batches = _count(len(plan.batches), "batch", "batches")
    if plan.batches:
        yield f"{ends} after {batches}, {_count(copies, 'replica')} copied"
    else:
        yield ends if plan.waiting else "nothing to do"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _list(replicas: tuple[int, ...]) -> str:
    return f"({','.join(map(str, replicas))})"
