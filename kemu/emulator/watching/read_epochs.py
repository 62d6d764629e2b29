"""In which term each consumer read what: the identity of the records it processed."""

from kemu.emulator.watching.epoch_log import NO_TERM, Run, Term
from kemu.protocol.names import ActorName, TopicPartition


class ReadEpochs:
    """By reader and partition, where the term changed while it read on: (first offset, term), ascending."""

    def __init__(self) -> None:
        self._runs: dict[tuple[ActorName, TopicPartition], list[tuple[int, Term]]] = {}

    def positioned(self, reader: ActorName, at: TopicPartition, offset: int) -> None:
        """It begins here. Until it tells a term, nobody knows what it reads."""
        self._runs[reader, at] = [(offset, NO_TERM)]

    def told(self, reader: ActorName, at: TopicPartition, offset: int, term: Term) -> None:
        """What it reads from this offset on is of this term (epoch -1: it cannot tell), whatever it said before."""
        runs = self._runs.setdefault((reader, at), [])
        while runs and runs[-1][0] >= offset:
            runs.pop()
        runs.append((offset, term))

    def pieces(self, reader: ActorName, at: TopicPartition, first: int, last: int) -> list[Run]:
        """Records ``first .. last - 1`` by term. Those of no known term are left out."""
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
