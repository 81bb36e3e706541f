"""The process that forks Spark's Python workers; it imports all modules before the first fork.

Spark's own daemon (`pyspark.daemon`) forks first, and every worker then imports for itself: 0.5 s of CPU and 40 MB per
worker, again after each idle minute, and so most of the gap between two long epochs. On a cluster Spark runs this
module for task workers (`spark.python.daemon.module`); embedded, also for two of its planning workers.
"""

import contextlib
import gc
import importlib
import sys

from pyspark import daemon

# Spark imports after the fork because a module may start threads, which a fork does not copy. Of these modules only
# pyarrow has one: jemalloc's, which handles forks.
_IMPORTS = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "twinlog.spark.datasource",
)
_TASKS = "pyspark.worker"  # only workers that run this module copy records


def main() -> None:
    # Spark's own jar is on the path. Python reads its list of files, 8 MB, and each worker does so again.
    sys.path[:] = [path for path in sys.path if not path.endswith(".jar")]
    for path in [path for path in sys.path_importer_cache if path.endswith(".jar")]:
        del sys.path_importer_cache[path]
    # Spark passes the module whose `main` the workers run.
    for name in (*sys.argv[1:], *_IMPORTS, *(["twinlog.kafka.native"] if _TASKS in sys.argv else ())):
        with contextlib.suppress(Exception):  # a worker that needs the module fails with a better message
            importlib.import_module(name)
    # Without freeze, the collector writes into every object, and so copies these pages in each worker.
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
