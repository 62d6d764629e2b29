"""The README's tour, run as a reader would run it."""

import re
import shlex
from pathlib import Path

import pytest

from kemu.tools.cli import main

pytest_plugins = ("pytester",)

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+) (file=(\S+)|run)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tour_of_the_readme_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are written as shown, commands run as shown, each must end with exit code 0."""
    monkeypatch.chdir(tmp_path)
    commands = 0
    for language, _, file, text in BLOCK.findall(README.read_text(encoding="utf-8")):
        if file:
            Path(file).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "README.md", "exec"), {})
        else:
            for line in text.splitlines():
                commands += 1
                program, *arguments = shlex.split(line.removeprefix("$ "))
                assert program == "kemu"
                with pytest.raises(SystemExit) as ended:
                    main(arguments)
                assert ended.value.code in (0, None), f"{line}\n{capsys.readouterr()}"

    said = capsys.readouterr().out
    assert commands >= 9
    assert "5 of 5 hold" in said
    assert "NEVER FIRED" not in said
    assert "no difference" in said


def test_the_example_test_of_the_readme_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a project of its own, with the plugin."""
    (text,) = [
        text for _, _, file, text in BLOCK.findall(README.read_text(encoding="utf-8")) if file == "test_billing.py"
    ]
    monkeypatch.syspath_prepend(str(README.parent))
    pytester.makeconftest('pytest_plugins = ("kemu.tools.testkit.plugin",)')
    pytester.makepyfile(test_billing=text)

    assert pytester.runpytest().parseoutcomes() == {"passed": 6}


def test_the_readme_opens_with_the_two_commands() -> None:
    """Nothing stands between a reader and a running demo."""
    first = README.read_text(encoding="utf-8").split("```")[1]

    assert first == "console\n$ python3 bootstrap.py demo\n$ python3 bootstrap.py test\n"


def test_what_the_readme_quotes_is_what_a_run_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same table with as many rebalances of as many members; times may move by milliseconds between versions."""
    text = README.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for _, _, file, content in BLOCK.findall(text):
        if file:
            Path(file).write_text(content, encoding="utf-8")

    for arguments in (
        ["import", "topics.txt", "members.txt", "consumer.properties", "--out", "billing.toml"],
        ["run", "billing.toml", "--do", "rolling-restart every=20s down=8s"],
    ):
        with pytest.raises(SystemExit):
            main(arguments)

    quoted, printed = text.split("```text\n")[1].split("```")[0], capsys.readouterr().out
    assert rebalances(quoted) == rebalances(printed)
    assert len(rebalances(quoted)) == 7
    (head,) = [line for line in quoted.splitlines() if line.strip().startswith("group ")]
    assert head in printed.splitlines()


def rebalances(text: str) -> list[tuple[str, str]]:
    """(generation, members) of each row of a table of rebalances."""
    row = re.compile(r"^ +billing +(\d+) +[\d:.]+ +[\d.]+ m?s +[\d.]+ m?s +(\d+) ", re.MULTILINE)
    return row.findall(text)


def test_the_quoted_story_of_a_zombie_controller_is_what_a_run_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line; "..." stands for what is left out."""
    with pytest.raises(SystemExit):
        main(["run", "zombie-controller", "--loop", "bare"])

    printed = capsys.readouterr().out.splitlines()
    story, cost = [block.split("```")[0] for block in README.read_text(encoding="utf-8").split("```text\n")[2:4]]
    for line in (*story.splitlines(), *cost.splitlines()):
        assert line.strip() == "..." or line in printed
    assert "is the controller, epoch 3" in story
    assert "partitions without a leader for a time" in cost
