"""Private counts and sums of 1e7 rows on DuckDB, beside OpenDP with Polars: python benchmarks/query.py [--quick]

    --peer PYTHON   an interpreter in whose environment `opendp[polars]` is installed (it pins a version of polars)
    --engines       also compare the statistics before noise of DuckDB, PostgreSQL and local Spark, bit for bit
                    (1e5 rows; PostgreSQL needs its server's programs, Spark needs pyspark and a Java)

Every measurement is a process of its own with one thread. Memory is the largest that was resident. CPU seconds include
reading the file, and not the start: both sides load their libraries first, and read no row before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine

RESULT = machine.RESULTS / "query.json"
GROUPS, LIMIT, CLIP = 100, 5, 100.0
OURS = """
import json, resource, sys, time
import ibis
from tacit.query import Table, count, sum, users, mean, variance
path, which, portable = sys.argv[1], sys.argv[2], sys.argv[3] == "portable"
asked = {
    "plain": None,
    "count": dict(n=count()),
    "sum": dict(total=sum("v", (0, 100))),
    "both": dict(n=count(), total=sum("v", (0, 100))),
    "five": dict(
        n=count(), total=sum("v", (0, 100)), who=users(), average=mean("v", (0, 100)), spread=variance("v", (0, 100))
    ),
}[which]
engine = ibis.duckdb.connect(threads=1)
table = engine.read_parquet(path)
engine.to_pyarrow(table.limit(0))  # loads what reads results
began = time.process_time()
if asked is None:
    engine.to_pyarrow(table.group_by("g").aggregate(n=table.count(), s=table.v.sum()))
    found = {}
else:
    held = Table(table, unit="uid", max_groups=5, max_rows=3, portable=portable, lost=float(sys.argv[4]))
    query = held.group_by("g", keys=range(100)).aggregate(**asked)
    answer = query.release(epsilon=1.0)
    found = {"lost": None if answer.lost is None else answer.lost.value}
    noise = query._prices(1.0, 0.0)
    found["scales"] = [float(part.spread) for part in noise.terms.values()]
spent = time.process_time() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"cpu_seconds": round(spent, 2), "gigabytes": round(memory, 3), **found}))
"""
PEER = """
import json, os, resource, sys, time
os.environ["POLARS_MAX_THREADS"] = "1"
import opendp.prelude as dp
import polars as pl
dp.enable_features("contrib")
path, which = sys.argv[1], sys.argv[2]
pl.scan_parquet(path).head(0).collect()  # loads what reads results
began = time.process_time()
context = dp.Context.compositor(
    data=pl.scan_parquet(path),
    privacy_unit=dp.unit_of(contributions=1, identifier="uid"),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=1,
    margins=[dp.polars.Margin(by=["g"], invariant="keys", max_length=10_000_000, max_groups=100)],
)
total = pl.col("v").fill_nan(0).fill_null(0).dp.sum(bounds=(0.0, 100.0))
expressions = {"count": [dp.len(signed=True)], "sum": [total], "both": [dp.len(signed=True), total]}[which]
query = context.query().truncate_per_group(3, by=["g"], keep="first").truncate_num_groups(5, by=["g"], keep="first")
keys = pl.LazyFrame({"g": list(range(100))}, schema={"g": pl.Int64})
asked = query.group_by("g").agg(*expressions).with_keys(keys)
asked.release().collect()
spent, memory = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
scales = [float(scale) for scale in asked.summarize()["scale"]]
print(json.dumps({"cpu_seconds": round(spent, 2), "gigabytes": round(memory, 3), "scales": scales}))
"""


ENGINES = """
import hashlib, json, sys, time
sys.path.insert(0, sys.argv[3])
import ibis
from tacit.query import Table, count, sum, users, mean, variance
from tacit.query.bounding import totals
path, which = sys.argv[1], sys.argv[2]

def statistics(source):
    held = Table(source, unit="uid", max_groups=5, max_rows=3, portable=True).group_by("g", keys=range(100))
    query = held.aggregate(
        n=count(), total=sum("v", (0, 100)), who=users(), average=mean("v", (0, 100)), spread=variance("v", (0, 100))
    )
    began = time.perf_counter()
    exact = totals(query.shape, query._terms(query.aggregates), lost=True)
    numbers = [[int(x) for x in values] for values in exact.terms.values()] + [[exact.lost, exact.everybody]]
    digest = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()
    print(json.dumps({"digest": digest, "lost": exact.lost, "seconds": round(time.perf_counter() - began, 1)}))

if which == "duckdb":
    statistics(path)
elif which == "pyspark":
    import pyspark
    from pyspark.sql import SparkSession
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    statistics(ibis.pyspark.connect(session).read_parquet(path))
else:
    import duckdb, postgres_server, psycopg
    with postgres_server.server() as server:
        place = server.fresh("rows")
        with psycopg.connect(place) as connection:
            connection.execute("create table visits (uid bigint, g bigint, v double precision)")
            with connection.cursor().copy("copy visits from stdin") as copy:
                for row in duckdb.sql(f"select * from '{path}'").fetchall():
                    copy.write_row(row)
        statistics(f"{place}#visits")
"""


def compared(path: str) -> dict[str, Any]:
    """The statistics of every engine that is here, and whether they are the same bits."""
    tests = str(Path(__file__).parents[1] / "tests")
    found = {name: measured(sys.executable, ENGINES, path, name, tests) for name in ("duckdb", "postgres", "pyspark")}
    digests = {part["digest"] for part in found.values() if "digest" in part}
    return {**found, "identical": len(digests) == 1, "compared": sum("digest" in part for part in found.values())}


def made(folder: Path, rows: int, users: int, name: str = "rows") -> Path:
    """Rows of users in groups with skewed values, some NaN; the same every time."""
    import duckdb

    path = folder / f"{name}.parquet"
    duckdb.sql(
        f"""copy (select (hash(i * 7 + 1) % {users})::bigint as uid, (hash(i * 13 + 5) % {GROUPS})::bigint as g,
        case when i % 1000 = 0 then 'nan'::double else (hash(i * 3) % 20000) / 100.0 - 20 end as v
        from range({rows}) t(i)) to '{path}' (format parquet)"""
    )
    return path


def measured(python: str, code: str, *words: str) -> dict[str, Any]:
    done = subprocess.run([python, "-c", code, *words], capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared_with_one(path: str, runs: int) -> dict[str, Any]:
    """CPU seconds of one aggregate and of five, run by run, and how many times one the five cost."""
    names = ("count", "sum", "five")
    rounds = [{name: measured(sys.executable, OURS, path, name, "native", "0") for name in names} for _ in range(runs)]
    found: dict[str, Any] = {name: [row[name]["cpu_seconds"] for row in rounds] for name in names}
    for one in ("count", "sum"):
        found[f"five over {one}"] = [round(row["five"]["cpu_seconds"] / row[one]["cpu_seconds"], 2) for row in rounds]
    return found


def kept(found: dict[str, Any], quick: bool) -> None:
    """Print what was measured and write it to the file; parts that were not measured this time stay there."""
    print(json.dumps(found, indent=1))
    if not quick:
        old = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
        RESULT.write_text(json.dumps({**old, **found}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="1e6 rows; nothing is written")
    parser.add_argument("--peer", help="an interpreter with opendp[polars]")
    parser.add_argument("--engines", action="store_true", help="compare DuckDB, PostgreSQL and Spark bit for bit")
    parser.add_argument("--runs", type=int, help="only: so many runs of one aggregate and of five, added to the file")
    options = parser.parse_args()
    rows, users = (10**6, 10**5) if options.quick else (10**7, 10**6)
    found: dict[str, Any] = {"machine": machine.describe("duckdb", "ibis-framework"), "rows": rows, "users": users}
    found["settings"] = {"groups": GROUPS, "max_groups": LIMIT, "max_rows": 3, "bounds": [0, CLIP], "threads": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = str(made(Path(folder), rows, users))
        if options.runs:
            kept({"five beside one": compared_with_one(path, options.runs)}, options.quick)
            return
        for which in ("plain", "count", "sum", "both", "five"):
            found[which] = measured(sys.executable, OURS, path, which, "native", "0")
        found["both, with what was lost"] = measured(sys.executable, OURS, path, "both", "native", "0.05")
        found["both, portable"] = measured(sys.executable, OURS, path, "both", "portable", "0")
        if options.engines:
            found["engines"] = compared(str(made(Path(folder), 10**5, 10**4, "few")))
        if options.peer:
            found["opendp"] = {which: measured(options.peer, PEER, path, which) for which in ("count", "sum", "both")}
    kept(found, options.quick)


if __name__ == "__main__":
    main()
