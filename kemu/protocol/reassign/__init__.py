"""Decisions of partition reassignment: one partition's next step, the next batch of many partitions, a whole plan.

Sources: KIP-435 (batches), KIP-455 (the mechanism of each step). The controller executes these decisions.
"""
