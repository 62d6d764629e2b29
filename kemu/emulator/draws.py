"""The draws of a run: the scenario's set of distributions, and a random stream per draw and host's life.

The table ``protocol.draws`` lists all draws with their distributions. Each draw has a separate stream per host's life
or per run, so that an additional draw changes no other stream.
"""

from collections.abc import Container, Mapping
from functools import lru_cache
from uuid import UUID

from kemu.emulator.chance import Choices, Stream
from kemu.protocol.draws import (
    DRAWS,
    LOAD_US,
    LOADED,
    MILLION,
    MOMENT_US,
    ONE,
    READABLE,
    SETS,
    TOGETHER,
    UUIDS,
    Distribution,
    DrawName,
    distribution,
)
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of

LIFE, CALM_SET = SETS
_NO_MOMENT = (-1, MILLION)
OF_PROCESS = (DrawName.FIRST_ID, DrawName.SUBSCRIBE_WAIT)
"""Draws that are common to a process of several members, and begin with it."""


@frozen
class DrawSet:
    """The draws of a scenario: a named set of distributions, and single distributions (name, text) that override the
    set.
    """

    name: str = LIFE
    settings: tuple[tuple[str, str], ...] = ()

    def of(self, name: DrawName) -> Distribution | None:
        """Return the distribution of a draw; None for an exact value."""
        given = dict(self.settings).get(name.value)
        if given is not None:
            return distribution(given)
        return distribution(DRAWS[name.value].life) if self.name == LIFE else None

    def is_set(self, name: DrawName) -> bool:
        """Whether the scenario sets this draw itself."""
        return name.value in dict(self.settings)

    @property
    def identities(self) -> bool:
        """Whether ids are drawn."""
        return dict(self.settings).get(DrawName.IDENTITY.value, UUIDS if self.name == LIFE else READABLE) == UUIDS

    @property
    def calm(self) -> bool:
        """Whether draws that the scenario does not set have exact values."""
        return self.name == CALM_SET


class _Distributions(dict[DrawName, Distribution | None]):
    """Draw -> its distribution, read at its first use; None for an exact value."""

    def __init__(self, draws: DrawSet) -> None:
        self._draws = draws

    def __missing__(self, name: DrawName) -> Distribution | None:
        how = self[name] = self._draws.of(name)
        return how


_distributions = lru_cache(maxsize=16)(_Distributions)


class Drawn:
    """The draws of one owner ("c1/life 2", "plan"); see ``actors.machine.Draws``.

    Args:
        without: draws that this owner does not make, such as draws that the owner's configuration replaces.
        scaled: draw -> factor in millionths; other draws are not scaled.
        process: name of the process of several members whose draws ``TOGETHER`` couples; "": a process of its own.
        began_us: time at which this process started.
    """

    def __init__(
        self,
        choices: Choices,
        draws: DrawSet,
        owner: str,
        *,
        without: Container[DrawName] = (),
        scaled: Mapping[DrawName, int] = {},
        process: str = "",
        began_us: int = 0,
    ) -> None:
        self._choices = choices
        self._draws = draws
        self._owner = owner
        self._without = without
        self._scaled = scaled
        self._process = process
        self._began_us = began_us
        self._load = _NO_MOMENT
        """The last moment of ``LOAD_US``, and the machine's load at this moment."""
        self._distributions = _distributions(draws)
        self._streams: dict[DrawName, Stream] = {}
        self._identities: Stream | None = None

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        """Return the next drawn time in us, for a share as a part of ``of_us``; ``calm_us`` if it is not drawn.

        ``at_us``: the present time, for the draws of ``TOGETHER``, ``LOADED`` and ``OF_PROCESS``.
        """
        how = self._distributions[name]
        if how is None or name in self._without:
            return calm_us
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = self._choices.stream(f"draw/{name.value}/{self._owner}")
        if self._process and name in OF_PROCESS:
            further_us = self.us(DrawName.FIRST_TURN, 0) if name is DrawName.FIRST_ID else 0
            return self._loaded_us(name, how, at_us) + further_us
        bits = stream.word()
        if (
            self._process
            and at_us >= 0
            and name in TOGETHER
            and stream.word() < distribution(TOGETHER[name]).mean * ONE // MILLION
        ):
            moment = at_us // MOMENT_US
            bits = self._choices.stream(f"draw/{name.value}/{self._process}/moment {moment}").word()
        value = how.of(bits)
        if how.shares:
            value = of_us * value // MILLION
        if at_us >= 0 and name in LOADED:
            value = value * self._load_at(at_us) // MILLION
        return value * self._scaled[name] // MILLION if name in self._scaled else value

    def _loaded_us(self, name: DrawName, how: Distribution, at_us: int) -> int:
        """The rest of a time that begins with a process of several members."""
        bits = self._choices.stream(f"draw/{name.value}/{self._process}").word()
        loaded_us = how.of(bits) * self._scaled.get(name, MILLION) // MILLION
        return max(self._began_us + loaded_us - at_us, 0)

    def _load_at(self, at_us: int) -> int:
        """The machine's load at this time, in millionths."""
        moment = at_us // LOAD_US
        if moment != self._load[0]:
            how = self._distributions[DrawName.MACHINE_MOMENT]
            machine = self._process or host_of(self._owner)
            purpose = f"draw/{DrawName.MACHINE_MOMENT.value}/{machine}/{moment}"
            self._load = moment, MILLION if how is None else how.of(self._choices.stream(purpose).word())
        return self._load[1]

    def identity(self, readable: str) -> str:
        """Return the next random UUID (version 4) as text; ``readable`` if identities are not drawn."""
        if not self._draws.identities:
            return readable
        if self._identities is None:
            self._identities = self._choices.stream(f"draw/{DrawName.IDENTITY.value}/{self._owner}")
        drawn = sum([self._identities.word() << place for place in (0, 32, 64, 96)])
        return str(UUID(int=drawn, version=4))
