"""The terms in which consumers read records. Terms identify the records that consumers processed."""

from kemu.emulator.watching.epoch_log import NO_TERM, Run, Term
from kemu.protocol.names import ActorName, TopicPartition, shared


class ReadEpochs:
    """The terms in which each reader reads each partition, as runs (first offset, term)."""

    def __init__(self) -> None:
        self._runs: dict[tuple[ActorName, TopicPartition], list[tuple[int, Term]]] = {}

    def positioned(self, reader: ActorName, at: TopicPartition, offset: int) -> None:
        """Note that the reader begins at this offset. The term is unknown until the reader reports a leader epoch."""
        self._runs[reader, shared(at)] = [(offset, NO_TERM)]

    def read_from(self, reader: ActorName, at: TopicPartition, offset: int, term: Term) -> None:
        """Note that the reader reads records of this term from this offset on (epoch -1 for unknown). The report
        replaces earlier reports for these offsets.
        """
        runs = self._runs.setdefault((reader, at), [])
        while runs and runs[-1][0] >= offset:
            runs.pop()
        runs.append((offset, term))

    def term(self, reader: ActorName, at: TopicPartition, first: int) -> Term:
        """The term of all records that the reader reads from this offset on; ``NO_TERM`` if unknown or several."""
        runs = self._runs.get((reader, at))
        return runs[-1][1] if runs and runs[-1][0] <= first else NO_TERM

    def pieces(self, reader: ActorName, at: TopicPartition, first: int, last: int) -> list[Run]:
        """Records ``first .. last - 1`` by term, without records of an unknown term."""
        found: list[Run] = []
        upto = last
        for start, term in reversed(self._runs.get((reader, at), ())):
            begin = max(start, first)
            if begin < upto:
                if term[0] >= 0:
                    found.append((begin, upto, term))
                upto = begin
            if start <= first:
                break
        found.reverse()
        return found
