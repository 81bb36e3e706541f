"""The process from which Spark forks Python workers: ours imports everything before the first fork.

Spark's own daemon (`pyspark.daemon`) forks first, and each worker then imports for itself: half a second of CPU and
40 MB for every one, again after each minute without work, and so most of the gap between two long epochs. On a cluster
Spark runs this module for the workers of tasks (`spark.python.daemon.module`); embedded, also for two of its planners.
"""

import contextlib
import gc
import importlib
import sys

from pyspark import daemon

# Spark imports after the fork lest a module has started threads, which a fork does not copy. Of these only pyarrow has
# one, and that is jemalloc's own, which knows how to live through a fork.
_IMPORTS = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "twinlog.pipeline.datasource",
)
_TASKS = "pyspark.worker"  # the module of those workers that run tasks: they alone copy records


def main() -> None:
    # Spark names the module whose `main` the workers will run.
    for name in (*sys.argv[1:], *_IMPORTS, *(["twinlog.kafka.native"] if _TASKS in sys.argv else ())):
        with contextlib.suppress(Exception):  # the worker that needs it will fail with its own, better words
            importlib.import_module(name)
    # The collector would write into every object it looks at, and so make a copy of all these pages in each worker.
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
