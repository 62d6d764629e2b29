"""The account of a log in lines: how much of it was understood, by which words, and what was not."""

from collections.abc import Iterator

from kemu.tools.logs.reading import LogSummary

MOST_SHAPES = 12


def account_lines(summary: LogSummary, most_shapes: int = MOST_SHAPES) -> Iterator[str]:
    """The account of one file."""
    share = 100 * summary.understood / summary.records if summary.records else 0
    yield f"{summary.file}: {summary.understood:,} of {summary.records:,} records understood ({share:.0f} %)"
    if summary.dialects:
        yield "  written by: " + ", ".join(f"{name} ({count:,})" for name, count in summary.dialects.most_common())
    for text in filter(None, (releases.text(product) for product, releases in summary.releases.items())):
        yield f"  release: {text}"
    if summary.versions:
        yield "  states: Kafka " + ", ".join(summary.versions)
    if summary.shapes:
        unknown = sum(summary.shapes.values())
        yield f"  not understood: {unknown:,} records, of which {summary.unknown_about_groups:,} may be about groups"
        for name, count in summary.shapes.most_common(most_shapes):
            yield f"    {count:6,} x {name}  (line {summary.first_line[name]})"
        if len(summary.shapes) > most_shapes:
            yield f"    and {len(summary.shapes) - most_shapes:,} more shapes"
