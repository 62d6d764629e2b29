"""The cases of Kafka's tests of members of the consumer protocol."""

import pytest

from tests.kafka_tests.cases import OF_MEMBERS, Case, cases
from tests.kafka_tests.client_runner import ClientRunner


@pytest.mark.parametrize(("case", "release"), cases(*OF_MEMBERS))
def test_the_member_acts_as_in_kafkas_test(case: Case, release: str) -> None:
    ClientRunner(case, release).run()
