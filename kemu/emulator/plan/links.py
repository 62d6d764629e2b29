"""Helpers of the actions on links: hosts by name or role, and a rule of the network for a limited time."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from kemu.emulator.engine.network import Rule
from kemu.emulator.plan.stage import Outcome, Stage

P = ParamSpec("P")


def on_link(stage: Stage, sender: str, receiver: str, act: Callable[[str, str], Outcome]) -> Outcome:
    """Call ``act`` with the hosts that have these names or roles now ("" for any host), if the hosts exist."""
    names = [stage.cluster.resolve(name) if name else "" for name in (sender, receiver)]
    if (sender and not names[0]) or (receiver and not names[1]):
        return "its host does not exist now"
    return act(*names)


def install_on(
    stage: Stage,
    for_us: int,
    sender: str,
    receiver: str,
    rule: Callable[Concatenate[str, str, P], Rule],
    *args: P.args,
    **named: P.kwargs,
) -> Outcome:
    """Install ``rule`` for these hosts with the remaining arguments, if the hosts exist."""

    def install(sending: str, receiving: str) -> None:
        stage.install(for_us, rule(sending, receiving, *args, **named))

    return on_link(stage, sender, receiver, install)


def link_words(sender: str, receiver: str) -> str:
    """The direction as text: "c1 -> any"."""
    return f"{sender or 'any'} -> {receiver or 'any'}"
