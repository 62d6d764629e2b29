"""``python -m lab.docs``: write, check and build the documentation."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab.docs import links, reference, running
from lab.docs.pages import DOCS, REFERENCE, ROOT, name_of, pages
from lab.docs.pictures import PICTURES

SITE = ROOT / "build" / "site"


def wanted(only: tuple[str, ...] = ()) -> dict[Path, Callable[[], str]]:
    """All pages and pictures, or the named ones, each with a function that returns the up-to-date text."""
    made: dict[Path, Callable[[], str]] = {path: partial(_remade, path) for path in pages()}
    made |= {REFERENCE / f"{name}.md": make for name, make in reference.PAGES.items()}
    made |= {DOCS / "pictures" / f"{name}.svg": make for name, make in PICTURES.items()}
    return {path: make for path, make in sorted(made.items()) if not only or name_of(path) in only}


def _remade(path: Path) -> str:
    return running.rewritten(reference.with_sections(path.read_text(encoding="utf-8")))


def write(only: tuple[str, ...], *, check: bool) -> int:
    """Rewrite outdated pages, or list outdated pages; return the exit code."""
    code = 0
    for path, make in wanted(only).items():
        try:
            text = make()
        except running.BlockFailed as error:
            print(f"{name_of(path)}: {error}")
            code = 1
            continue
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{name_of(path)}: not up to date; run python -m lab.docs --write")
            code = 1
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{name_of(path)}: rewritten")
    return code


def site() -> int:
    """Build the site with Sphinx, with warnings as errors; return the exit code."""
    shutil.rmtree(SITE, ignore_errors=True)
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", str(DOCS), str(SITE)],
        check=False,
    )
    if built.returncode == 0:
        print(f"built {name_of(SITE)}/index.html")
    return built.returncode


def check_links(*, outside: bool) -> int:
    """Print broken links; return the exit code."""
    wrong = [*links.broken(), *(links.external() if outside else ())]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def main() -> int:
    """Carry out the options in the order of their declaration; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.docs", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="rewrite the reference, every output block and the pictures"
    )
    parser.add_argument("--check", action="store_true", help="list the pages that --write would change")
    parser.add_argument("--links", action="store_true", help="check the links; addresses need a network")
    parser.add_argument("--site", action="store_true", help="build the site below build/site (extra: dev)")
    parser.add_argument("pages", nargs="*", help="only these pages, such as README.md (--write and --check)")
    asked = parser.parse_args()
    if not (asked.write or asked.check or asked.links or asked.site):
        parser.error("nothing to do: --write, --check, --links or --site")
    only = tuple(asked.pages)
    code = 0
    if asked.write or asked.check:
        code = write(only, check=not asked.write)
    if asked.links:
        code = check_links(outside=True) or code
    if asked.site:
        code = site() or code
    return code


if __name__ == "__main__":
    sys.exit(main())
