"""Partition reassignment, decided: one partition's next step, many partitions' next batch, a whole plan on paper.

Sources: KIP-435 (batching), KIP-455 (the machinery each step runs on). The controller executes what is decided here.
"""
