"""Campaigns, traces and tables on Spark.

* ``session`` starts Spark, and finds or installs a Java for Spark.
* ``cells``: the runs of a campaign, as cells (scenario, profile, settings) and chunks of seeds.
* ``worker`` runs a chunk on an executor and writes its results.
* ``campaign`` runs on the driver: it plans, resumes and reports a campaign.
* ``source``: the data source ``kemu``, which reads trace files as rows, in batches or as a stream.
* ``schemas``: the columns of every table, for Arrow and for Spark.
* ``decode`` turns facts and records into rows of tables.
* ``ingest`` writes new chunks and traces as Parquet, each exactly once.
* ``tables``: rebalances, ownership, commits and others, as pure functions DataFrame -> DataFrame.
* ``summaries``: downtime, moves, effects of faults and comparisons, computed from the tables.
* ``quality``: constraints on each table.
* ``run`` runs an analysis, which calls the modules above in order.

Only this package imports pyspark. The package ``emulator`` judges runs; this package contains no rule of Kafka.
"""
