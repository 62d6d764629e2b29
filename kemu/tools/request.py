"""The runs that a command line or a campaign's cell requests: scenario, seeds, profile and output."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kemu.protocol.frozen import frozen
from kemu.tools.interrupt import code_words

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario


@frozen
class Request:
    """The arguments of a command line that runs a scenario."""

    source: str
    """A preset's name or a file, as the user gave it."""
    scenario: "Scenario"
    seeds: tuple[int, ...]
    profile: str
    settings: tuple[str, ...]
    actions: tuple[str, ...]
    loop: str
    trace: Path | None
    live: bool
    control: Path | None = None
    """The socket at which a live run takes orders."""
    report: Path | None = None
    """The file for the page of a single run."""

    def trace_of(self, seed: int) -> Path | None:
        """Return the file for the trace of one seed: the given file, or one file per seed."""
        if self.trace is None or len(self.seeds) == 1:
            return self.trace
        return self.trace.with_name(f"{self.trace.stem}-{seed}{self.trace.suffix}")

    def command_for(self, seed: int) -> str:
        """Return the command that repeats a run."""
        from kemu.protocol.profiles import DEFAULT_PROFILE

        words = ["kemu", "run", self.source, "--seed", str(seed)]
        if self.profile != (self.scenario.profile or DEFAULT_PROFILE):
            words += ["--profile", self.profile]
        for setting in self.settings:
            words += ["--set", setting]
        for action in self.actions:
            words += ["--do", action]
        assignors = [name for group in self.scenario.groups.values() for name in group.assignors]
        needs_code = any(":" in name and name not in " ".join(self.settings) for name in assignors)
        words += code_words() or (["--allow-code"] if needs_code else [])
        if self.loop != "trio":
            words += ["--loop", self.loop]
        return shlex.join(words)
