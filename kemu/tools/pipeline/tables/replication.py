"""The tables of replication: states of partitions in the metadata store, leaderships, and time without a leader.

``NodeWritten`` changes a leader or an ISR in the store, even if the writer crashes before the store's answer arrives.
The writers report the reasons by ``IsrChanged`` and ``LeaderElectedForPartition``.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as every text on Spark names it

from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import CONTROLLER_SUFFIX
from kemu.tools.pipeline.tables.common import gaps, host_ends, of, run_ends
from kemu.tools.pipeline.tables.schemas import ISR_CHANGES, LEADERLESS, LEADERSHIPS

_STATE = "^/brokers/topics/[^/]+/partitions/[0-9]+/state$"
_TOPIC = "^/brokers/topics/[^/]+$"
_PARTITION = ("run_id", "partition")


def partition_of_note() -> Column:
    """The partition of a fact, as "topic-0", from the columns of topic and number."""
    return F.concat_ws("-", "topic", F.col("partition").cast("string"))


def _of_rest(shape: str) -> Column:
    """The fields of a fact in the column ``rest``, which contains fields without a column of ``NOTES``."""
    return F.from_json("rest", shape)


def store_writes(notes: DataFrame, path: str) -> DataFrame:
    """Writes to nodes of the metadata store (``protocol.nodes`` lists the nodes).

    In:  notes; path: a regular expression
    Out: (run_id, n, at_us, what, path, data, version, by): ``what``: created, set, deleted
    """
    written = _of_rest("what string, path string, data string, version long, client string")
    columns = [F.col(f"w.{name}") for name in ("what", "path", "data", "version")]
    return (
        notes.where(F.col("fact") == "NodeWritten")
        .select("run_id", "n", "at_us", written.alias("w"))
        .where(F.col("w.path").rlike(path))
        .select("run_id", "n", "at_us", *columns, F.col("w.client").alias("by"))
    )


def _states(notes: DataFrame) -> DataFrame:
    """States of partitions. In: notes. Out: (run_id, partition, n, at_us, topic, by, version, there, leader, ...)."""
    place = F.split("path", "/")
    shape = "leader int, leader_epoch long, isr array<int>, controller_epoch long"
    return (
        store_writes(notes, _STATE)
        .withColumn("topic", place[3])
        .withColumn("partition", F.concat_ws("-", place[3], place[5]))
        .withColumn("there", F.col("what") != "deleted")
        .withColumn("state", F.when(F.col("there"), F.from_json("data", shape)))
        .select(*_PARTITION, "n", "at_us", "topic", "by", "version", "there", "state.*")
    )


def _assignments(notes: DataFrame) -> DataFrame:
    """Assigned replicas. In: notes. Out: (run_id, partition, n, replicas), without adding replicas (KIP-455)."""
    shape = "partitions map<string,array<int>>, adding_replicas map<string,array<int>>"
    none = F.array().cast("array<int>")
    return (
        store_writes(notes, _TOPIC)
        .where("what <> 'deleted'")
        .withColumn("topic", F.split("path", "/")[3])
        .withColumn("t", F.from_json("data", shape))
        .select("run_id", "n", "topic", "t.adding_replicas", F.explode("t.partitions").alias("number", "all"))
        .withColumn("adding", F.coalesce(F.try_element_at("adding_replicas", F.col("number")), none))
        .withColumn("replicas", F.array_except("all", "adding"))
        .select("run_id", F.concat_ws("-", "topic", "number").alias("partition"), "n", "replicas")
    )


def _reasons(notes: DataFrame) -> DataFrame:
    """Reasons of writers. In: notes. Out: (run_id, partition, n, epoch, version, why)."""
    told = _of_rest("leader_epoch long, zk_version long, strategy string")
    by_controller = (F.col("fact") != "IsrChanged") | F.col("actor").endswith(CONTROLLER_SUFFIX)
    return (
        notes.where(F.col("fact").isin("IsrChanged", "LeaderElectedForPartition", "LeaderEpochBumped"))
        .withColumn("told", told)
        .select(
            "run_id", partition_of_note().alias("partition"), "n", F.col("told.leader_epoch").alias("epoch"),
            F.when(~by_controller, F.col("told.zk_version")).alias("version"),
            F.coalesce("why", "told.strategy").alias("why"),
        )
    )  # fmt: skip


def _explained(states: DataFrame, reasons: DataFrame) -> DataFrame:
    """Each write with the reason that the writer reported after the write, or null.

    A controller's write has a new leader epoch, which identifies the reason. A leader's write keeps the epoch, so the
    version identifies the reason.

    In:  the output of ``_states``; the output of ``_reasons``
    Out: the columns of ``_states``, why
    """
    before = F.lag("leader_epoch").over(Window.partitionBy(*_PARTITION).orderBy("n"))
    own = F.when(F.col("leader_epoch") == before, F.col("version"))
    keyed = states.withColumn("epoch", F.col("leader_epoch")).withColumn("own", own)
    wanted = keyed.select(
        *_PARTITION, "n", "epoch", F.col("own").alias("version"), F.lit(None).cast("string").alias("why")
    )
    alike = Window.partitionBy(*_PARTITION, "epoch", "version")
    # A topic that was deleted and created again repeats epochs, so each reason is joined to the latest earlier write.
    so_far = alike.orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = Window.partitionBy(*_PARTITION, "epoch", "version", "turn").orderBy("n")
    found = (
        wanted.withColumn("asks", F.lit(1))
        .unionByName(reasons.withColumn("asks", F.lit(0)))
        .withColumn("turn", F.sum("asks").over(so_far))
        .withColumn("why", F.first("why", ignorenulls=True).over(whole.rowsBetween(0, Window.unboundedFollowing)))
        .where("asks = 1")
        .select("run_id", "partition", "n", "why")
    )
    return keyed.drop("epoch", "own").join(found, ["run_id", "partition", "n"], how="inner")


def _promises(notes: DataFrame) -> DataFrame:
    """``min.insync.replicas`` of topics, one row for each creation of a topic.

    In:  notes
    Out: (run_id, topic, min_isr, since_n, until_n)
    """
    in_order = Window.partitionBy("run_id", "topic").orderBy("n")
    return (
        notes.where(F.col("fact") == "TopicReplicated")
        .withColumn("min_isr", F.get_json_object("rest", "$.min_isr").cast("int"))
        .withColumn("until_n", F.lead("n").over(in_order))
        .select("run_id", "topic", "min_isr", F.col("n").alias("since_n"), "until_n")
    )


def _stated_by_logs(notes: DataFrame) -> DataFrame:
    """ISRs that logs state, one row for each change of the stated ISR.

    A leader logs the ISR before it asks the store, and again with the version that the store gave.

    In:  notes
    Out: the columns of ISR_CHANGES that logs state
    """
    in_order = Window.partitionBy(*_PARTITION).orderBy("n")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    states = Window.partitionBy(*_PARTITION, "state").orderBy("n")
    state = states.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    shape = "leader int, leader_epoch long, isr array<int>, isr_before array<int>, version long"
    before = F.coalesce("isr_before", "old_isr", "isr")
    return (
        notes.where(F.col("fact") == "LeadershipStated")
        .withColumn("stated", _of_rest(shape))
        .where(F.col("stated.isr").isNotNull() & F.col("partition").isNotNull())
        .withColumn("leader", F.coalesce(F.col("leader").cast("int"), F.col("stated.leader")))
        .select("run_id", partition_of_note().alias("partition"), "n", "at_us", "topic", F.col("actor").alias("by"),
                "why", "leader", "stated.leader_epoch", "stated.isr", "stated.isr_before", "stated.version")
        .withColumn("isr", F.array_sort("isr"))
        .withColumn("changed", F.coalesce(F.col("isr") != F.lag("isr").over(in_order), F.lit(True)))
        .withColumn("state", F.sum(F.col("changed").cast("int")).over(so_far))
        .withColumn("version", F.max("version").over(state))
        .withColumn("leader_epoch", F.first("leader_epoch", ignorenulls=True).over(state))
        .withColumn("leader", F.first("leader", ignorenulls=True).over(state))
        .where("changed")
        .withColumn("old_isr", F.lag("isr").over(in_order))
        .withColumn("until_us", F.lead("at_us").over(in_order))
        .withColumn("joined", F.array_except("isr", before))
        .withColumn("gone", F.array_except(before, "isr"))
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("until_us", F.coalesce("until_us", "ends_us"))
        .select("run_id", "n", "at_us", "until_us", "topic", "partition", "by", "why", "leader", "leader_epoch",
                "version", "isr", "joined", "gone")
    )  # fmt: skip


def isr_changes(notes: DataFrame) -> DataFrame:
    """Every state of a partition in the metadata store, and the interval until the next state.

    In:  notes
    Out: ISR_CHANGES
    """
    in_order = Window.partitionBy(*_PARTITION).orderBy("n")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = (
        _explained(_states(notes), _reasons(notes))
        .withColumn("replicas", F.lit(None).cast("array<int>"))
        .unionByName(_assignments(notes), allowMissingColumns=True)
        .withColumn("replicas", F.last("replicas", ignorenulls=True).over(so_far))
        .where(F.col("there").isNotNull())
    )
    promised = _promises(notes)
    of_topic = (F.col("s.run_id") == promised["run_id"]) & (F.col("s.topic") == promised["topic"])
    then = (F.col("s.n") > promised["since_n"]) & (F.col("s.n") <= F.coalesce(promised["until_n"], F.col("s.n")))
    old_isr = F.coalesce("old_isr", "isr")
    led = (F.col("leader") != NO_LEADER) & F.col("old_isr").isNotNull()
    return (
        placed.withColumn("until_us", F.lead("at_us").over(in_order))
        .withColumn("old_leader", F.lag("leader").over(in_order))
        .withColumn("old_isr", F.lag("isr").over(in_order))
        .where("there")
        .alias("s")
        .join(promised, of_topic & then, how="left")
        .select("s.*", "min_isr")
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("until_us", F.coalesce("until_us", "ends_us"))
        .withColumn("joined", F.array_except("isr", old_isr))
        .withColumn("gone", F.array_except(old_isr, "isr"))
        .withColumn("under_replicated", F.size("isr") < F.size("replicas"))
        .withColumn("under_min_isr", F.size("isr") < F.col("min_isr"))
        .withColumn("unclean", led & ~F.array_contains(old_isr, F.col("leader")))
        .unionByName(_stated_by_logs(notes), allowMissingColumns=True)
        .select(*of(ISR_CHANGES))
    )


def _tenures(states: DataFrame) -> DataFrame:
    """Intervals in which the metadata store named the same leader, or no leader.

    In:  ISR_CHANGES
    Out: (run_id, partition, first_epoch, last_epoch, from_n, next_us, next_why): ``next_*`` of the next interval
    """
    in_order = Window.partitionBy(*_PARTITION).orderBy("n")
    other = F.coalesce((F.col("leader") != F.col("old_leader")).cast("int"), F.lit(1))
    tenures = (
        states.withColumn("tenure", F.sum(other).over(in_order.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*_PARTITION, "tenure")
        .agg(
            F.min("leader_epoch").alias("first_epoch"),
            F.max("leader_epoch").alias("last_epoch"),
            F.min("n").alias("from_n"),
            F.min("at_us").alias("from_us"),
            F.min_by("why", "n").alias("why"),
        )
    )
    by_number = Window.partitionBy(*_PARTITION).orderBy("tenure")
    return (
        tenures.withColumn("next_us", F.lead("from_us").over(by_number))
        .withColumn("next_why", F.lead("why").over(by_number))
        .drop("tenure", "from_us", "why")
    )


def leaderships(notes: DataFrame, states: DataFrame) -> DataFrame:
    """Intervals in which a broker acted as the leader that the store named.

    An interval begins with ``BecameLeader``. The interval ends when the broker leads in another epoch, becomes a
    follower or stops. The interval also ends when the host goes down, or the store names another leader or no leader.

    In:  notes; states: ISR_CHANGES
    Out: LEADERSHIPS
    """
    key = ("run_id", "actor", "life", "partition")
    named = {"BecameLeader": "renewed", "BecameFollower": "followed", "ReplicaStopped": "stopped"}
    ended_by = F.create_map(*[F.lit(word) for pair in named.items() for word in pair])[F.col("fact")]
    turns = (
        notes.where(F.col("fact").isin(*named))
        .withColumn("partition", partition_of_note())
        .withColumn("leader_epoch", F.get_json_object("rest", "$.leader_epoch").cast("long"))
        .select(*key, "n", "at_us", "leader_epoch", ended_by.alias("ended_by"))
    )
    ends = host_ends(turns.select(*key).distinct(), notes).withColumn("leader_epoch", F.lit(None).cast("long"))
    in_order = Window.partitionBy(*key).orderBy("n")
    acted = (
        turns.unionByName(ends.select(*turns.columns))
        .withColumn("then_us", F.lead("at_us").over(in_order))
        .withColumn("then_by", F.lead("ended_by").over(in_order))
        .where("ended_by = 'renewed'")
        .join(run_ends(notes), "run_id", how="inner")
    )
    of_epoch = F.col("leader_epoch").between(F.col("first_epoch"), F.col("last_epoch")) & (F.col("from_n") < F.col("n"))
    # A topic that was deleted and created again repeats epochs, so each row is joined to the latest earlier tenure.
    newest_first = Window.partitionBy("run_id", "n", "partition").orderBy(F.desc("from_n"))
    until_us = F.coalesce("then_us", "ends_us")
    deposed = F.coalesce(F.col("next_us") < until_us, F.lit(False))
    return (
        acted.join(_tenures(states), list(_PARTITION), how="inner")
        .where(of_epoch)
        .withColumn("rank", F.row_number().over(newest_first))
        .where("rank = 1")
        .withColumn("from_us", F.col("at_us"))
        .withColumn("until_us", F.when(deposed, F.col("next_us")).otherwise(until_us))
        .withColumn("ended_by", F.when(deposed, "deposed").otherwise(F.coalesce("then_by", F.lit("end"))))
        .withColumn("why", F.when(deposed, F.col("next_why")))
        .where("from_us < until_us")
        .select(*of(LEADERSHIPS))
    )


def _creations(states: DataFrame) -> DataFrame:
    """Lifetimes of partitions. In: ISR_CHANGES. Out: (run_id, partition, creation, since_us, gone_us)."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        states.withColumn("creation", F.sum(F.col("old_leader").isNull().cast("int")).over(in_order))
        .groupBy(*_PARTITION, "creation")
        .agg(F.min("at_us").alias("since_us"), F.max("until_us").alias("gone_us"))
    )


def leaderless(notes: DataFrame, led: DataFrame, states: DataFrame) -> DataFrame:
    """Intervals without a leader, from a partition's first leader until its deletion.

    In:  notes; led: LEADERSHIPS; states: ISR_CHANGES
    Out: LEADERLESS
    """
    cause = F.coalesce(F.regexp_replace("why", r"^replica \d+ is", "a replica is"), "ended_by")
    there = _creations(states)
    meanwhile = (F.col("since_us") <= F.col("from_us")) & (F.col("from_us") < F.col("gone_us"))
    held = led.withColumn("cause", cause).join(there, list(_PARTITION), how="inner").where(meanwhile)
    gone = (
        gaps(held, notes, ("partition", "creation"))
        .join(there, [*_PARTITION, "creation"], how="inner")
        .withColumn("until_us", F.least("until_us", "gone_us"))
        .where("from_us < until_us")
    )
    named = states.where((F.col("leader") != NO_LEADER) & ~F.col("leader").eqNullSafe(F.col("old_leader")))
    inside = F.col("s.at_us").between(F.col("g.from_us"), F.col("g.until_us"))
    same = (F.col("g.run_id") == F.col("s.run_id")) & (F.col("g.partition") == F.col("s.partition"))
    key = ("run_id", "partition", "from_us", "until_us", "cause")
    elected_us = F.coalesce("named_us", "until_us")
    return (
        gone.alias("g")
        .join(named.alias("s"), same & inside, how="left")
        .groupBy(*[F.col(f"g.{name}").alias(name) for name in key])
        .agg(F.max("s.at_us").alias("named_us"))
        .withColumn("elect_us", elected_us - F.col("from_us"))
        .withColumn("take_over_us", F.col("until_us") - elected_us)
        .select(*of(LEADERLESS))
    )
