"""Campaigns, traces and tables on Spark: how often, how long, which setting helps.

    session      the one place that starts Spark (and finds or brings a Java)
    cells        what a campaign runs: scenario x profile x setting, its seeds cut into chunks
    worker       runs a chunk on an executor and writes what came of it, whole or not at all
    campaign     driver's side: plan, resume, progress, report
    source       ``format("kemu")``: trace files as rows, batch and streaming
    schemas      every table's columns, once, for Arrow and for Spark
    decode       facts and records as rows of tables
    ingest       new chunks and traces into Parquet, each exactly once
    tables       rebalances, ownership, commits, ...: pure functions DataFrame -> DataFrame
    summaries        what tables answer: downtime, moves, fault effect, comparisons
    quality      what must hold of each table
    run          reads, calls the above in order, writes

Only this package imports pyspark. Everything a run means is decided in ``emulator``; nothing here knows Kafka's rules.
"""
