"""One-line breaks of what is done when a core alone is healed, and of what is demanded of it then."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # nobody is recalled for min.insync.replicas: no record of the group is taken
        "kemu/emulator/injection/core.py",
        "    if len(there) < standing.needed:\n",
        "    if not there:\n",
        "liveness",
        ("core_alone.toml:1",),
    ),
    Mutation(  # what lasts goes on lasting in the core
        "kemu/emulator/injection/injector.py",
        "        self.cluster.keep_away(away)\n        self.heal()\n",
        "        self.cluster.keep_away(away)\n",
        "liveness",
        ("core_alone.toml:1",),
    ),
    Mutation(  # what counts is what those own that stay away
        "kemu/emulator/checkers/liveness.py",
        "if host_of(each.actor) not in self.panel.away for at in each.owned)\n",
        "if host_of(each.actor) in self.panel.away for at in each.owned)\n",
        "liveness",
        ("core_alone.toml:1",),
    ),
]
