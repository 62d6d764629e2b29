"""The cases of Kafka's tests of whole groups of the consumer protocol."""

import pytest

from tests.kafka_tests.cases import OF_COMMITS, OF_MEMBERS, Case, cases, files
from tests.kafka_tests.group_runner import GroupRunner

FILES = [name for name in files() if name not in ("CurrentAssignmentBuilderTest", OF_COMMITS, *OF_MEMBERS)]


@pytest.mark.parametrize(("case", "release"), cases(*FILES))
def test_the_coordinator_answers_as_in_kafkas_test(case: Case, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    GroupRunner(case, release, monkeypatch).run()
