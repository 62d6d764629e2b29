"""The number of Hypothesis examples: ``tests/conftest.py`` loads a profile for each set of tests."""

from hypothesis import settings

FULL_EXAMPLES = 100
SHORT_EXAMPLES = 25
FEWEST = 10


def examples(full: int) -> int:
    """Scale a number of examples for the full set to the profile that is loaded: a quarter for the short set."""
    assert settings.default is not None
    return max(min(full, FEWEST), full * settings.default.max_examples // FULL_EXAMPLES)
