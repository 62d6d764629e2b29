"""The cases of Kafka's tests of a consumer's commits and OffsetFetch."""

import pytest

from tests.kafka_tests.cases import OF_COMMITS, Case, cases
from tests.kafka_tests.commit_runner import CommitRunner


@pytest.mark.parametrize(("case", "release"), cases(OF_COMMITS))
def test_the_consumer_commits_and_fetches_as_in_kafkas_test(case: Case, release: str) -> None:
    CommitRunner(case, release).run()
