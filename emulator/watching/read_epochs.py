"""From which leader epoch each consumer read what: the identity of the records it processed."""

from kemu.protocol.names import ActorName, TopicPartition


class ReadEpochs:
    """By reader and partition, where the epoch changed while it read on: (first offset, epoch), ascending."""

    def __init__(self) -> None:
        self._runs: dict[tuple[ActorName, TopicPartition], list[tuple[int, int]]] = {}

    def positioned(self, reader: ActorName, at: TopicPartition, offset: int) -> None:
        """It begins here. Until it says otherwise what it reads is of epoch 0."""
        self._runs[reader, at] = [(offset, 0)]

    def told(self, reader: ActorName, at: TopicPartition, offset: int, epoch: int) -> None:
        """What it reads from this offset on is of this epoch (-1: it cannot tell), whatever it said of that before."""
        runs = self._runs.setdefault((reader, at), [])
        while runs and runs[-1][0] >= offset:
            runs.pop()
        runs.append((offset, epoch))

    def pieces(self, reader: ActorName, at: TopicPartition, first: int, last: int) -> list[tuple[int, int, int]]:
        """Records ``first .. last - 1`` by epoch: (first, last + 1, epoch). Those of no known epoch are left out."""
        found: list[tuple[int, int, int]] = []
        upto = last
        for start, epoch in reversed(self._runs.get((reader, at), ())):
            begin = max(start, first)
            if begin < upto:
                if epoch >= 0:
                    found.append((begin, upto, epoch))
                upto = begin
            if start <= first:
                break
        found.reverse()
        return found
