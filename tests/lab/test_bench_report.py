"""The bench of pages runs, and a small page keeps its limit of bytes."""

from lab.bench.report import measure


def test_the_bench_measures_a_small_page() -> None:
    """The limits in time are for a quiet machine; the bytes are the same on every machine."""
    told: list[str] = []

    figures = measure(told.append, quick=True)

    assert figures["messages"] > 10_000
    assert figures["page_held"]
    assert told[0].startswith("busy-6-24")
