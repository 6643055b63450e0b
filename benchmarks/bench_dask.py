"""Traffic, partitions and memory of fits on a Dask cluster of two processes.

Run as ``python -m benchmarks.bench_dask traffic | partitions | memory [--rows 1e6]``.

- traffic: bytes of all answers that reach the client, for different numbers of rows.
- partitions: processor and wall time of the same rows in 40 and in 400 Parquet files.
- memory: data several times as large as the memory of all workers, with the defaults; bytes spilled.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from qhreg.dask import quantile_huber
from qhreg.dask.rows import Cluster

FORMULA = "y ~ x1 + x2 + x3 + x4 + x5 + C(region)"


def write(folder: Path, rows: int, files: int) -> None:
    """Write rows to Parquet files; few distinct values keep them small on the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, n in enumerate(np.diff(np.linspace(0, rows, files + 1).astype(int))):
        rng = np.random.default_rng(number)
        data = pd.DataFrame(
            rng.integers(-99, 100, (n, 5)) / 50.0, columns=[f"x{j}" for j in range(1, 6)]
        )
        region = rng.integers(0, 4, n)
        data["region"] = np.array(list("abcd"), dtype=object)[region]
        data["y"] = 1.0 + data.sum(axis=1, numeric_only=True) + 0.1 * region + rng.gumbel(size=n)
        data.to_parquet(folder / f"{number:04d}.parquet")


class Watched:
    """Answers of the cluster, counted."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        compute = Cluster.compute

        def counted(cluster: Cluster, task: Any) -> Any:
            value = compute(cluster, task)
            self.sizes.append(len(pickle.dumps(value)))
            return value

        Cluster.compute = counted  # type: ignore[method-assign]


def _spilled(dask_worker: Any) -> int:
    spilled = getattr(dask_worker.data, "spilled_total", None)
    return 0 if spilled is None else int(spilled.disk)


def _peak() -> int:
    """Return the largest resident memory of a process, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _processor() -> float:
    return time.process_time()


def fitted(client: Client, folder: Path, **options: Any) -> tuple[Any, float, float]:
    """Return a fit, its seconds, and those of all processors."""
    start, here = time.perf_counter(), time.process_time()
    before = sum(client.run(_processor).values())
    results = quantile_huber(FORMULA, dd.read_parquet(folder)).fit(**options)
    used = time.process_time() - here + sum(client.run(_processor).values()) - before
    return results, time.perf_counter() - start, used


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["traffic", "partitions", "memory"])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6])
    parser.add_argument("--limit", default="2GiB", help="memory of each worker")
    options = parser.parse_args()
    watched = Watched()
    base = Path(tempfile.mkdtemp())
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=options.limit
        ) as cluster,
        Client(cluster) as client,
    ):
        write(base / "first", 10_000, 2)
        fitted(client, base / "first")  # what workers load once
        for rows in map(int, options.rows):
            for files in (40, 400) if options.what == "partitions" else (40,):
                if options.what == "memory":
                    files = max(rows // 125_000, 2)
                write(base / "data", rows, files)
                watched.sizes.clear()
                results, seconds, used = fitted(client, base / "data")
                size = rows * results.model.k_exog * 8
                print(
                    f"{rows:.0e} rows ({size / 2**20:.0f} MiB), {files} files, "
                    f"kept {results.model.partitions.pieces.kept}: {seconds:.1f} s, "
                    f"{used:.1f} s of processor, {len(watched.sizes)} passes, "
                    f"{sum(watched.sizes) / 1e3:.0f} kB to the client, largest "
                    f"{max(watched.sizes) / 1e3:.0f} kB; workers' peaks "
                    f"{[round(v / 2**20) for v in client.run(_peak).values()]} MiB, spilled "
                    f"{sum(client.run(_spilled).values()) / 2**20:.0f} MiB",
                    flush=True,
                )
                del results
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
