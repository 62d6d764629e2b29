"""Campaigns, traces and tables on Spark.

* ``session`` starts Spark, with a Java that it finds or brings.
* ``cells``: the runs of a campaign, scenario x profile x setting, with seeds cut into chunks.
* ``worker`` runs a chunk on an executor and writes its results.
* ``campaign``: the driver's side, with plan, resume, progress and report.
* ``source``: the data source ``kemu``, which reads trace files as rows, batch and streaming.
* ``decode`` turns facts and records into rows of tables.
* ``ingest`` writes new chunks and traces into Parquet, each exactly once.
* ``parts``: the parts of an analysis and their columns, as a file lists them.
* ``tables``: the columns of every table; rebalances, ownership, commits and others, as pure functions DataFrame ->
  DataFrame.
* ``summaries``: downtime, moves, effects of faults and comparisons, computed from the tables.
* ``quality``: constraints on each table.
* ``run`` runs an analysis: it reads, calls the modules above in order, and writes.
* ``query``: SQL over an analysis with DuckDB; ``query_on_spark``: the same with Spark.
* ``files``: reads JSON files that may be damaged; ``errors``: the errors that a user can correct.

Only this package imports pyspark and duckdb. ``emulator`` judges runs; this package knows no rule of Kafka.
"""
