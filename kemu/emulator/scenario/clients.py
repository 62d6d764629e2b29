"""The real clients of a served cluster (``kemu serve``)."""

from collections.abc import Iterator, Mapping

from attrs import field

from kemu.actors.clients.script import Script
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.tables import Problem
from kemu.emulator.text.units import words
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.names import client_host, client_of, is_legal_name

LONGEST_NAME = 64
MOST_CLIENTS = 250
GUEST = "guest-"


@frozen(kw_only=True)
class ClientsSpec:
    """Real clients that may join the cluster over TCP. The host of the client ``app1`` is ``x-app1``.

    Each named client has ports of its own, so plans and network links can name its host. Other clients are guests: the
    first is ``guest-1`` on the host ``x-guest-1``. A run without ``kemu serve`` has these hosts, too. In such a run,
    clients repeat their ``script``, as ``kemu scriptify`` writes it; other clients do nothing.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    names: tuple[str, ...] = field(
        default=(), converter=words, metadata=key("real clients with ports of their own", what="name")
    )
    guests: int = field(
        default=0,
        metadata=key(
            "largest number of real clients without a name",
            at_least=0,
            at_most=MOST_CLIENTS,
            shown="0; 64 in kemu serve",
        ),
    )
    script: tuple[str, ...] = field(
        default=(),
        metadata=key("what scripted clients send: lines of JSON (kemu scriptify)", what="line"),
    )

    def __attrs_post_init__(self) -> None:
        refuse([*problems_of(self), *self._wrong_names()])
        if self.script:
            from kemu.emulator.scenario.script import problems_of_script  # cattrs, which no other scenario needs

            names = [client_of(host) for host in self.hosts()]
            refuse(evolve(each, path=("script", *each.path)) for each in problems_of_script(self.script, names))

    def _wrong_names(self) -> Iterator[Problem]:
        if len(self.names) > MOST_CLIENTS:
            yield Problem(("names",), f"must have at most {MOST_CLIENTS} names")
        for name in dict.fromkeys(self.names):
            if not is_legal_name(name) or len(name) > LONGEST_NAME:
                text = f'"{name:.80}" is no name: use at most {LONGEST_NAME} letters, digits, dots, "_" and "-"'
                yield Problem(("names",), text)
            elif name.startswith(GUEST):
                yield Problem(("names",), f'"{name}" is the name of a client without a name: begin with another word')
            elif self.names.count(name) > 1:
                yield Problem(("names",), f'"{name}" is named twice')

    def scripts(self) -> Mapping[str, Script]:
        """Return the scripts of scripted clients by host."""
        if not self.script:
            return {}
        from kemu.emulator.scenario.script import read_script

        return {client_host(name): script for name, script in read_script(self.script).items()}

    def named_hosts(self) -> tuple[str, ...]:
        """Return the hosts of the named clients."""
        return tuple(map(client_host, self.names))

    def guest_hosts(self) -> tuple[str, ...]:
        """Return the hosts of clients without a name."""
        return tuple(client_host(f"{GUEST}{number}") for number in range(1, self.guests + 1))

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of all real clients."""
        return (*self.named_hosts(), *self.guest_hosts())
