"""Callbacks of applications and frameworks: the application's own line for a fact that its client states, too."""

from kemu.tools.logs.wordings.wordings import Dialect, table

_LIST = "{\\[|\\{|(|set(\\[|frozenset(\\{}"

DIALECT = Dialect(
    "spring-callbacks",
    "application",
    rows=table(
        r"""
callback-assigned | partitions assigned:{ }[<partitions:[^\]]*>]
callback-revoked | partitions revoked:{ }[<partitions:[^\]]*>]
callback-lost | partitions lost:{ }[<partitions:[^\]]*>]
callback-assigned | Partitions assigned:{ }[<partitions:(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*>]
callback-revoked | Partitions revoked:{ }[<partitions:(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*>]
callback-lost | Partitions lost:{ }[<partitions:(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*>]
callback-assigned | onPartitionsAssigned<_:\W*>[<partitions:[^\]]*>]
callback-revoked | onPartitionsRevoked<_:\W*>[<partitions:[^\]]*>]
callback-lost | onPartitionsLost<_:\W*>[<partitions:[^\]]*>]
callback-revoked | Revoked: <partitions:.*TopicPartition[^\n]*>
callback-assigned | Assigned: <partitions:.*TopicPartition[^\n]*>
callback-revoked | % Consumer group rebalanced: revoked:<partitions:(?:\s+[\w.-]+ \[\d+\],?)*>
callback-assigned | % Consumer group rebalanced: assigned:<partitions:(?:\s+[\w.-]+ \[\d+\],?)*>
"""
    ),
)
