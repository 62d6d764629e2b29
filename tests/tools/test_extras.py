"""The command that adds an extra names the place that kemu comes from."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kemu.tools import extras

PYTHON = min(sys.executable, extras._shown(Path(sys.executable)), key=len)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An installation that is no checkout."""
    monkeypatch.setattr(extras, "PROJECT", tmp_path)
    return monkeypatch


def _state(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(extras, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))


def test_a_checkout_is_installed_again_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(extras.PROJECT)

    assert extras.missing("h11", "serve").startswith("this needs h11: ")
    assert extras.install_command("serve").endswith(" -m pip install --editable '.[serve]'")


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, "'kemu[serve]'"),
        ({"url": "file:///src/kemu", "dir_info": {}}, "'kemu[serve] @ file:///src/kemu'"),
        ({"url": "file:///x/kemu-0.1.0-py3-none-any.whl", "archive_info": {}},
         "'kemu[serve] @ file:///x/kemu-0.1.0-py3-none-any.whl'"),
        ({"url": "https://host/kemu", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
         "'kemu[serve] @ git+https://host/kemu@abc'"),
    ],
    ids=["index", "folder", "wheel", "repository"],
)  # fmt: skip
def test_an_installation_is_installed_again_from_its_place(
    origin: object, wanted: str, installed: pytest.MonkeyPatch
) -> None:
    """Source: PEP 610."""
    _state(installed, origin)

    assert extras.install_command("serve") == f"{PYTHON} -m pip install {wanted}"
