"""``--out`` replaces only an earlier result, and only by a whole one."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from kemu.tools.cli import kemu
from kemu.tools.errors import BadInput
from kemu.tools.files import check_out, write_text

SCENARIO = '[topics.orders]\npartitions = 2\n[groups.g]\nmembers = 2\ntopics = ["orders"]\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.toml", "my notes"),
        ("pyproject.toml", '[project]\nname = "mine"\n'),
        ("test_mine.py", "def test(): ...\n"),
        ("data.json", "no JSON"),
        ("notes", "my notes"),
        ("latin.toml", b"# \xe9\n"),
    ],
)
def test_a_file_of_another_kind_is_not_replaced(name: str, content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)

    with pytest.raises(BadInput, match="of another kind"):
        write_text(path, "new")

    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.toml", SCENARIO), ("test_a.py", "import kemu\n"), ("a.json", "{}"), ("empty", ""), ("new.toml", None)],
)
def test_an_earlier_result_is_replaced(name: str, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content, encoding="utf-8")

    write_text(path, "new")

    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "start", "is_replaced"),
    [
        ("a.json", b"{", True),
        ("a.html", "<!doctype html>\u2014".encode(), True),
        ("a.toml", b"#", False),
        ("a", b"", False),
    ],
)
def test_only_the_begin_of_a_large_file_is_read(name: str, start: bytes, is_replaced: bool, tmp_path: Path) -> None:
    """A sparse file of 1 TB; a scenario is never so large."""
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(start)
        file.truncate(1 << 40)

    with nullcontext() if is_replaced else pytest.raises(BadInput, match="of another kind"):
        check_out(path)


def test_a_link_and_an_input_are_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "a.toml", tmp_path / "link.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    link.symlink_to(path)

    with pytest.raises(BadInput, match="a symbolic link"):
        check_out(link)
    with pytest.raises(BadInput, match="it is an input"):
        check_out(path, [str(path)])


@pytest.mark.parametrize(
    "words", [("swarm", "{}", "--seed", "1"), ("explore", "{}"), ("shrink", "{}")], ids=lambda w: w[0]
)
def test_commands_refuse_their_own_input(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    out = str(path).removesuffix(".toml") if words[0] == "shrink" else str(path)

    done = CliRunner().invoke(kemu, [*(word.format(path) for word in words), "--out", out])

    assert done.exit_code == 2
    assert f"{path}: it is an input" in done.stderr
    assert path.read_text(encoding="utf-8") == SCENARIO
