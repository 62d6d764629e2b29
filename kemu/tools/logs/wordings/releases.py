"""ReleaseSpan that the words of a log allow."""

import functools

import attrs

Release = tuple[int, ...]

_NEWEST: Release = (10**6,)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Release:
    """``2.10.1`` as numbers."""
    return tuple(int(part) for part in text.split("."))


@attrs.define
class ReleaseSpan:
    """The releases that have all wordings seen: from ``since`` to ``until``; a bound may be missing."""

    since: str = ""
    until: str = ""

    def add(self, releases: str) -> None:
        """Take the wording of the releases ``since..until`` into account."""
        since, _, until = releases.partition("..")
        if since and (not self.since or parse(since) > parse(self.since)):
            self.since = since
        if until and (not self.until or parse(until) < parse(self.until)):
            self.until = until

    def text(self, product: str) -> str:
        """The result in words, such as ``broker 2.3 to 2.7 by its words``; empty if the words tell nothing."""
        if self.since and self.until and parse(self.since) > (*parse(self.until), *_NEWEST):
            return f"{product} of several releases, until {self.until} and since {self.since} by its words"
        if self.since and self.until:
            span = self.since if self.since == self.until else f"{self.since} to {self.until}"
            return f"{product} {span} by its words"
        if self.since:
            return f"{product} {self.since} or later by its words"
        return f"{product} {self.until} or earlier by its words" if self.until else ""
