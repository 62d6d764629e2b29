"""The digest of every preset on calm draws, as it was when we last looked: a change of behaviour is seen, and meant.

A digest is of all that a run did (``TraceWriter``): each step, packet and fact. When one changes, say in the commit
which presets and why, and::

    python -m tests.calm_digests --rewrite

Without ``--rewrite`` it tells which differ; with names of presets it looks at those alone.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kemu.emulator.runner import run
from tests.preset_runs import PRESETS
from tests.soak_presets import on

FILE = Path(__file__).parent / "data" / "calm-digests.json"
SEED = 1


def kept() -> dict[str, str]:
    """Preset -> digest, from the file."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def digest_of(name: str) -> str:
    """Of the preset as it runs now."""
    return run(on(name, "calm")[0], seed=SEED, loop="bare").digest


def differing(names: Iterable[str], before: Mapping[str, str]) -> dict[str, str]:
    """The presets whose digest is not what it was, with what it is."""
    now = {name: digest_of(name) for name in names}
    return {name: digest for name, digest in now.items() if before.get(name) != digest}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewrite", action="store_true", help="keep what they are now")
    parser.add_argument("names", nargs="*", metavar="PRESET", help="default: every preset")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(PRESETS)):
        parser.error(f"no presets: {', '.join(unknown)}; kemu scenarios lists them")
    before = kept()
    changed = differing(chosen.names or PRESETS, before)
    print(
        "\n".join(f"{name}: {'differs' if name in before else 'new'}" for name in changed) or "all are what they were"
    )
    if chosen.rewrite:
        rows = {name: digest for name, digest in {**before, **changed}.items() if name in PRESETS}
        FILE.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n")
    elif changed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
