"""Packages of an extra that are not installed: the message, with the command that installs the packages."""

import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
"""The folder of the packages: a checkout, or the site-packages of an environment."""


def missing(package: str, extra: str) -> str:
    """Return the message about a package that is not installed.

    Args:
        package: the package, as a person names it.
        extra: the extra of kemu that brings the package.
    """
    return f"this needs {package}: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this environment, from the place that kemu comes from.

    The place is the checkout that runs, the folder, file or repository of the installation (PEP 610), or an index.
    """
    if (PROJECT / "pyproject.toml").is_file():
        wanted = ["--editable", f"{_shown(PROJECT)}[{extra}]"]
    else:
        place = _installed_from()
        wanted = [f"kemu[{extra}] @ {place}" if place else f"kemu[{extra}]"]
    return shlex.join([_shown(Path(sys.executable)), "-m", "pip", "install", *wanted])


def _installed_from() -> str:
    """Return the URL of the installation; empty for an installation from an index."""
    try:
        stated = json.loads(distribution("kemu").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    version_control = stated.get("vcs_info")
    if version_control:
        return f"{version_control['vcs']}+{stated['url']}@{version_control['commit_id']}"
    return str(stated.get("url", ""))


def _shown(path: Path) -> str:
    """Return a path relative to the current folder if the relative path is shorter, else the path."""
    return min(os.path.relpath(path), str(path), key=len)
