"""``python -m lab.conformance.raw``: compare a real coordinator's responses to raw requests with the machine's.

Exit codes: 0 all responses are equal or differ by a named race, 1 a response differs, 2 bad input.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from kemu.protocol.config import MIGRATION_POLICIES, BrokerConfig
from kemu.protocol.profiles import PROFILES
from lab.conformance.maven import RealKafkaError
from lab.conformance.raw import recordings
from lab.conformance.raw.comparing import Compared, compare, shown
from lab.conformance.raw.consumer_drawing import draw_consumers
from lab.conformance.raw.drawing import TOPIC, DrawnSequence, draw
from lab.conformance.raw.mixed_drawing import draw_mixed
from lab.conformance.raw.settings import CLASSIC, MIXED, PROTOCOLS, broker_config, broker_settings, versions_of
from lab.conformance.raw.steps import SIZES, Conversation, ConversationError
from lab.conformance.real_broker import RealBroker, profile_of, unpacked
from lab.conformance.real_cluster import fetch_jars

DIFFERS = 1
ROUNDS = 4
"""Largest number of attempts for a sequence that differs. A difference in every attempt is not due to timing."""
WARM = 40
"""Number of sequences that are sent first and ignored, because a new broker answers its first requests late."""
SHOWN = 3
EVERY = 200


@click.command()
@click.option(
    "--maven",
    "release",
    metavar="VERSION",
    help="Use this release of Kafka, downloaded by Maven, such as 3.4.1 (needs Java).",
)
@click.option(
    "--kafka",
    "distribution",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Use the Kafka that is unpacked in this folder (needs Java).",
)
@click.option(
    "--sequences", type=click.IntRange(1, 20_000), default=200, show_default=True, help="Number of sequences."
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the first sequence; each further sequence has the next seed.",
)
@click.option(
    "--length", type=click.IntRange(2, 200), default=24, show_default=True, help="Number of requests in each sequence."
)
@click.option(
    "--at-once", type=click.IntRange(1, 200), default=30, show_default=True, help="Number of concurrent sequences."
)
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), help="Profile of the emulator; by default the release's profile."
)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default=CLASSIC,
    show_default=True,
    help="Protocol of the members: with consumer, ConsumerGroupHeartbeat (Kafka 4.0 or later); mixed: both protocols.",
)
@click.option(
    "--policy",
    type=click.Choice(MIGRATION_POLICIES),
    default=MIGRATION_POLICIES[0],
    show_default=True,
    help="group.consumer.migration.policy of the broker; for the protocol mixed.",
)
@click.option("--port", type=click.IntRange(1, 65_535), help="Port of the broker; by default a free port.")
@click.option("--keep", type=click.IntRange(1), help="Store the first N equal conversations.")
@click.option(
    "--kept",
    type=click.Path(file_okay=False, path_type=Path),
    show_default="the repository's",
    help="Folder of the recordings.",
)
@click.option(
    "--differing",
    type=click.Path(file_okay=False, path_type=Path),
    help="Store the conversations that differed without a possible race in this folder; compare again with --kept.",
)
def main(
    release: str | None,
    distribution: Path | None,
    sequences: int,
    seed: int,
    length: int,
    at_once: int,
    profile: str | None,
    protocol: str,
    policy: str,
    port: int | None,
    keep: int | None,
    kept: Path | None,
    differing: Path | None,
) -> None:
    """Send random short sequences of group requests to a real broker and to the coordinator machine, and compare the
    responses.

    Without --maven or --kafka, compare the machine with recorded conversations, without Java.
    """
    if release is not None and distribution is not None:
        raise click.UsageError("--maven and --kafka both say which Kafka: leave one out")
    asks = release is not None or distribution is not None
    for option, value in (("--keep", keep), ("--differing", differing)):
        if value is not None and not asks:
            raise click.UsageError(f"{option} is about a new recording: say --maven VERSION or --kafka DIR, too")
    kept = kept or recordings.KEPT[protocol]
    try:
        if not asks:
            sys.exit(_compare_recorded(kept, profile, protocol))
        with tempfile.TemporaryDirectory(prefix="kemu-real-kafka-") as name:
            folder = Path(name)
            if distribution is not None:
                release, libs = unpacked(distribution)
            else:
                assert release is not None
                profile_of(release)
                click.echo(f"Maven brings Kafka {release}", err=True)
                libs = fetch_jars(release, folder / "release")
            profile = profile or profile_of(release)
            config = broker_config(PROFILES[profile].broker, protocol, policy)
            versions = versions_of(release)
            seeds = range(seed, seed + sequences)

            def draw_all(topics: Mapping[str, str]) -> list[DrawnSequence]:
                if protocol == CLASSIC:
                    return [draw(number, config, versions, length=length) for number in seeds]
                draws = draw_mixed if protocol == MIXED else draw_consumers
                return [draws(number, config, versions, topics, length=length) for number in seeds]

            with RealBroker(
                release, libs, folder / "broker", broker_settings(release, protocol, policy), port
            ) as broker:
                click.echo(f"Kafka {release} listens on port {broker.port}", err=True)
                topics = (TOPIC,) if protocol == CLASSIC else tuple(SIZES)
                compared = asyncio.run(_ask_all(broker.port, topics, draw_all, config, at_once))
    except (RealKafkaError, ConversationError) as error:
        raise click.UsageError(str(error)) from None
    command = f"python -m lab.conformance.raw --maven {release} --sequences {sequences} --seed {seed}"
    command += "" if protocol == CLASSIC else f" --protocol {protocol}"
    command += f" --policy {policy}" if protocol == MIXED else ""
    command += f" --length {length}"
    if keep is not None:
        about = recordings.About(release, profile, f"{command} --keep {keep}", policy)
        _write(kept, about, [each.talk for each in compared if each.equal][:keep])
    if differing is not None:
        about = recordings.About(release, profile, command, policy)
        _write(differing, about, [each.nameless.talk for each in compared if each.nameless is not None])
    sys.exit(_told(f"kafka {release}, profile {profile}", compared))


def _write(folder: Path, about: recordings.About, talks: Sequence[Conversation]) -> None:
    path = recordings.path_of(folder, about.kafka)
    recordings.write(path, about, talks)
    click.echo(f"wrote {path}", err=True)


def _compare_recorded(kept: Path, profile: str | None, protocol: str) -> int:
    code = 0
    for each in recordings.read_all(kept):
        name = profile or each.about.profile
        config = broker_config(PROFILES[name].broker, protocol, each.about.policy)
        compared = [compare(talk, config) for talk in each.talks]
        code |= _told(f"kafka {each.about.kafka} (recorded), profile {name}", compared)
    return code


async def _ask_all(
    port: int,
    topics: Sequence[str],
    draw_all: Callable[[Mapping[str, str]], Sequence[DrawnSequence]],
    config: BrokerConfig,
    at_once: int,
) -> list[Compared]:
    """Send all sequences, and resend different sequences, in at most ``ROUNDS`` rounds with decreasing concurrency.

    ``draw_all``: draws the sequences for a cluster whose topics have these ids.
    """
    from lab.conformance.raw.asking import converse, ready  # kafka-python, of the extra ``dev``

    drawn = draw_all(await ready(port, topics))
    await converse(port, drawn[:WARM], at_once=at_once, prefix="warm", say=lambda done: None)
    found: dict[int, Compared] = {}
    left = list(drawn)
    for number in range(ROUNDS):

        def say(done: int, total: int = len(left), number: int = number) -> None:
            if done % EVERY == 0 or done == total:
                click.echo(f"round {number + 1}: {done} of {total} sequences", err=True)

        talks = await converse(port, left, at_once=max(at_once >> number, 1), prefix=f"raw{number}", say=say)
        for talk in talks:
            before = found.get(talk.seed)
            found[talk.seed] = compare(talk, config, rounds=number + 1, before=before)
        left = [each for each in left if not found[each.seed].equal]
        if not left:
            break
    return [found[each.seed] for each in drawn]


def _told(title: str, compared: Sequence[Compared]) -> int:
    """Print the results; return the exit code."""
    equal = [each for each in compared if each.equal]
    asked: Counter[str] = Counter()
    answered = 0
    for each in compared:
        asked.update(step.api for step in each.talk.steps)
        answered += len(each.talk.answers)
    repeated = [each for each in compared if each.rounds > 1]
    unexplained = [each for each in compared if not each.equal and not each.races]
    click.echo(f"{title}: {len(compared)} sequences, {asked.total()} requests, {answered} answers")
    click.echo(f"  {', '.join(f'{api} {count}' for api, count in asked.most_common())}")
    click.echo(f"  {len(equal)} equal, {len(unexplained)} with unexplained differences")
    conversions = Counter(protocol for each in compared for protocol in each.conversions)
    if conversions:
        named = ", ".join(f"{count} to {protocol}" for protocol, count in sorted(conversions.items()))
        click.echo(f"  conversions of groups with members: {named}")
    if repeated:
        click.echo(f"  {len(repeated)} put more than once; races that were possible where they differed first:")
        names = Counter(name for each in repeated for name in each.first_races or ("none that has a name",))
        for name, count in names.most_common():
            click.echo(f"    {name}: {count}")
    for each in compared:
        if not each.equal and each.races:
            click.echo(f"  sequence {each.talk.seed}: differed each time, and each time a race was possible")
    for each in compared:
        if each.equal and each.nameless is not None:
            click.echo(f"  sequence {each.talk.seed}: differed once without a possible race, and was equal afterwards")
            _show(each.nameless)
    for each in [*unexplained, *(each for each in compared if not each.equal and each.races)][:SHOWN]:
        _show(each)
    return DIFFERS if len(equal) < len(compared) else 0


def _show(each: Compared) -> None:
    for difference in each.differences:
        click.echo(f"  sequence {difference.seed}, request {difference.step}: {difference.field}")
        click.echo(f"    Kafka     {difference.kafka}")
        click.echo(f"    emulator  {difference.emulated}")
    for line in shown(each.talk, each.ours, each.differences[0].step):
        click.echo(f"    {line}")


if __name__ == "__main__":
    main()
