"""What a run was asked for, as values: by the command line, or by a cell of a campaign."""

import shlex
from pathlib import Path

from attrs import frozen

from kemu.emulator.scenario.scenario import Scenario


@frozen
class Request:
    """What was asked for on the command line."""

    source: str
    """As given: a preset's name or a file."""
    scenario: Scenario
    seeds: tuple[int, ...]
    profile: str
    settings: tuple[str, ...]
    actions: tuple[str, ...]
    loop: str
    trace: Path | None
    live: bool
    control: Path | None = None
    """Where a live run takes orders."""

    def trace_of(self, seed: int) -> Path | None:
        """Where the trace of one seed goes: the file itself, or with several seeds one file each."""
        if self.trace is None or len(self.seeds) == 1:
            return self.trace
        return self.trace.with_name(f"{self.trace.stem}-{seed}{self.trace.suffix}")

    def command_for(self, seed: int) -> str:
        """The one command that repeats a run."""
        from kemu.protocol.profiles import DEFAULT_PROFILE

        words = ["kemu", "run", self.source, "--seed", str(seed)]
        if self.profile != (self.scenario.profile or DEFAULT_PROFILE):
            words += ["--profile", self.profile]
        for setting in self.settings:
            words += ["--set", setting]
        for action in self.actions:
            words += ["--do", action]
        if self.loop != "trio":
            words += ["--loop", self.loop]
        return shlex.join(words)
