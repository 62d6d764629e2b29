"""Campaigns, traces and tables on Spark.

* ``session`` starts Spark, with a Java that it finds or brings.
* ``cells``: the runs of a campaign, scenario x profile x setting, with seeds cut into chunks.
* ``worker`` runs a chunk on an executor and writes its results.
* ``campaign``: the driver's side, with plan, resume, progress and report.
* ``source``: the data source ``kemu``, which reads trace files as rows, batch and streaming.
* ``schemas``: the columns of every table, for Arrow and for Spark.
* ``decode`` turns facts and records into rows of tables.
* ``ingest`` writes new chunks and traces into Parquet, each exactly once.
* ``tables``: rebalances, ownership, commits and others, as pure functions DataFrame -> DataFrame.
* ``summaries``: downtime, moves, effects of faults and comparisons, computed from the tables.
* ``quality``: constraints on each table.
* ``run`` runs an analysis: it reads, calls the modules above in order, and writes.

Only this package imports pyspark. ``emulator`` judges runs; this package knows no rule of Kafka.
"""
