"""Campaigns, traces and tables on Spark.

    session      starts Spark, with a Java that it finds or brings
    cells        the runs of a campaign: scenario x profile x setting, with seeds cut into chunks
    worker       runs a chunk on an executor and writes its results
    campaign     the driver's side: plan, resume, progress, report
    source       ``format("kemu")``: trace files as rows, batch and streaming
    schemas      the columns of every table, for Arrow and for Spark
    decode       facts and records as rows of tables
    ingest       new chunks and traces into Parquet, each exactly once
    tables       rebalances, ownership, commits, ...: pure functions DataFrame -> DataFrame
    summaries    downtime, moves, effects of faults, comparisons, computed from the tables
    quality      constraints on each table
    run          runs an analysis: reads, calls the modules above in order, writes

Only this package imports pyspark. ``emulator`` judges runs; this package knows no rule of Kafka.
"""
