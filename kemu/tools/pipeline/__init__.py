"""Campaigns, traces and tables on Spark.

* ``session`` starts Spark, and finds or installs a Java for Spark.
* ``cells``: the runs of a campaign, as cells (scenario, profile, settings) and chunks of seeds.
* ``daemon`` forks the Python workers of a local master.
* ``worker`` runs a chunk on an executor and writes its results.
* ``campaign`` runs on the driver: it plans, resumes and reports a campaign.
* ``source``: the data source ``kemu``, which reads trace files as rows, in batches or as a stream.
* ``decode`` turns facts and records into rows of tables.
* ``ingest`` writes new chunks and traces as Parquet, each exactly once.
* ``parts``: the parts of an analysis and the columns of its tables, as a file lists them.
* ``tables``: the columns of every table; rebalances, ownership, commits and others, as pure functions DataFrame ->
  DataFrame.
* ``summaries``: downtime, moves, effects of faults and comparisons, computed from the tables.
* ``quality``: constraints on each table.
* ``run`` runs an analysis, which calls the modules above in order.
* ``query``: SQL over an analysis with DuckDB; ``query_on_spark``: the same with Spark.
* ``files``: reads JSON files that may be damaged; ``errors``: the errors that a user can correct.

Only this package imports pyspark and duckdb. The package ``emulator`` judges runs; this package contains no rule of
Kafka.
"""
