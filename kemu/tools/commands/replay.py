"""``kemu replay`` feeds the events of a trace to new machines, or repeats the run of a trace."""

import json
import sys
from pathlib import Path

import click

from kemu.emulator.replay import Difference, Replayed, repeatable, rerun
from kemu.emulator.replay import replay as replay_trace
from kemu.emulator.text.tables import printable
from kemu.emulator.trace.traces import Step, Trace, read_trace
from kemu.protocol.profiles import PROFILES
from kemu.tools.commands.durations import TRACE_TIME
from kemu.tools.errors import BadInput
from kemu.tools.estimate import ask_before
from kemu.tools.exits import NONDETERMINISM, NOT_FOUND_AGAIN


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--rerun", "rerun", is_flag=True, help="Repeat the run, and compare the digests.")
@click.option("--actor", help="Replay only the machine of this actor (c1, b0/coordinator).")
@click.option(
    "--until",
    "until_us",
    type=TRACE_TIME,
    help='Stop at this time ("12.5s"); with --actor, print the state of the actor.',
)
@click.option("--profile", type=click.Choice(list(PROFILES)), help="Replay with machines of another profile.")
@click.option(
    "--loop", type=click.Choice(["trio", "bare"]), help="With --rerun: the event loop (default: the recorded one)."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def replay(
    trace: Path, rerun: bool, actor: str | None, until_us: int | None, profile: str | None, loop: str | None, form: str
) -> None:
    """Feed the events of TRACE to new machines; stop at the first difference.

    With --until, the command reads and checks a trace with an index only up to this time.
    """
    recorded = read_trace(trace)
    if rerun:
        _rerun(recorded, loop, form)
    else:
        _replay(recorded, profile, actor, until_us, form)


def _replay(trace: Trace, profile: str | None, actor: str | None, until_us: int | None, form: str) -> None:
    outcome = replay_trace(trace, profile=profile, actor=actor, until_us=until_us)
    if actor is not None and outcome.steps == 0:
        raise BadInput(f"{trace.path}: no step of {actor!r} in it (until then)")
    if form == "json":
        click.echo(json.dumps(_as_json(outcome), indent=2, default=_said))
    else:
        _print(outcome)
    if outcome.torn:
        raise BadInput(f"{trace.path}: {outcome.torn}")
    if outcome.difference is not None:
        _tell_other_version(trace)
        sys.exit(NOT_FOUND_AGAIN)


def _print(outcome: Replayed) -> None:
    from kemu.tools.report.run_report import NOT_CHECKED, unchecked_lines

    difference = outcome.difference
    if outcome.state is not None:
        click.echo(json.dumps(outcome.state, indent=2, default=_said))
    if difference is None:
        click.echo(f"{outcome.steps} steps replayed, no difference")
        for line in unchecked_lines(outcome.unchecked):
            click.echo(f"{NOT_CHECKED.lower()}: {line}")
    else:
        click.echo(f"difference after {outcome.steps - 1} equal steps: {difference.why}")
        for step in difference.before:
            click.echo(f"    {_title(step)}")
        click.echo(f"  > {_title(difference.step)}: {difference.event!r:.300}")
        for line in difference.recorded:
            click.echo(f"    recorded  {line:.300}")
        for line in difference.made:
            click.echo(f"    now       {line:.300}")


def _title(step: Step) -> str:
    return f"step {step.seq} at {step.at_us / 1_000_000:.6f} s, {printable(step.actor)} (life {step.life})"


def _as_json(outcome: Replayed) -> dict[str, object]:
    difference = outcome.difference
    unchecked = [{"checker": each.checker, "unknown": each.unknown} for each in outcome.unchecked]
    return {
        "steps": outcome.steps,
        "same": difference is None,
        "difference": None if difference is None else _difference_json(difference),
        "torn": outcome.torn,
        "state": outcome.state,
        **({"unchecked": unchecked} if unchecked else {}),
    }


def _difference_json(difference: Difference) -> dict[str, object]:
    return {
        "seq": difference.step.seq,
        "at_us": difference.step.at_us,
        "actor": difference.step.actor,
        "why": difference.why,
        "event": repr(difference.event),
        "recorded": list(difference.recorded),
        "now": list(difference.made),
    }


def _said(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _tell_other_version(trace: Trace) -> None:
    if not trace.is_of_this_vocabulary:
        click.echo(f"another version of kemu ({trace.header.package}) wrote this trace", err=True)


def _rerun(trace: Trace, loop: str | None, form: str) -> None:
    """Run the plan; if the digest differs, run it again to tell other code from nondeterminism."""
    ask_before([(repeatable(trace), 1)], 1)
    result, recorded = rerun(trace, loop=loop)
    same = recorded == result.digest
    footer = trace.footer()
    for field in ("steps", "messages", "virtual_us", "verdict") if same else ():
        said, found = getattr(footer, field), getattr(result, field)
        if said != found:
            raise BadInput(f"{trace.path}: the footer has {field} {said}, the run has {found}")
    repeated = result.digest if same else rerun(trace, loop=loop)[0].digest
    if form == "json":
        click.echo(
            json.dumps(
                {"same": same, "recorded": recorded, "digest": result.digest, "loop": result.loop, "repeated": repeated}
            )
        )
    elif same:
        click.echo(f"plan run, the same digest: {result.digest}")
    elif repeated == result.digest:
        click.echo(
            f"the digest differs: recorded {recorded}, now {result.digest}, twice: the code is not the recorded one"
        )
    else:
        click.echo(f"nondeterminism: recorded {recorded}, now {result.digest}, then {repeated}")
    if not same:
        _tell_other_version(trace)
        sys.exit(NOT_FOUND_AGAIN if repeated == result.digest else NONDETERMINISM)
