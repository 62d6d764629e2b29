"""A small analysis for tests of queries, which needs neither Spark nor a campaign."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kemu.tools.pipeline.ingest import SCHEMAS
from kemu.tools.pipeline.parts import Parts
from kemu.tools.pipeline.tables.schemas import RUNS
from kemu.tools.pipeline.worker import write_parquet

CELL = "rolling-restart kafka-3.4"


def write_analysis(folder: Path) -> Path:
    """Write an analysis with three runs, one summary, and tables without rows; return the folder."""
    (folder / "summaries").mkdir(parents=True)
    rows = []
    for seed in (1, 2, 3):
        row = dict.fromkeys(RUNS.names) | {"run_id": f"c/0/{seed}", "cell": CELL, "seed": seed, "moved": 10 * seed}
        rows.append(tuple({**row, "scenario_json": '{"name": "x"}', "result_json": "{}"}.values()))
    runs = folder / "tables" / "part=0000" / "table=runs" / "campaign=c-1"
    runs.mkdir(parents=True)
    write_parquet(runs / "00000.parquet", RUNS, rows)
    Parts(folder / "tables", SCHEMAS, {}).adding("0000", {"c/0": []})
    pq.write_table(pa.table({"cell": [CELL], "moved": [20.0]}), folder / "summaries" / "headline.parquet")
    return folder
