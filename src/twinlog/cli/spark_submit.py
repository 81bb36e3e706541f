"""Twinlog as a Spark application: `spark-submit ... spark_submit.py run mm2.properties` accepts what `twinlog` accepts.

spark-submit starts a JVM, which starts this program: `run` and `serve` use that Spark, whatever its master. It needs a
file whose name ends in .py; `python -m twinlog.cli.spark_submit` prints the path of this one.
"""

import sys

if __name__ == "__main__" and sys.path[0] and __file__.startswith(sys.path[0]):
    del sys.path[0]  # the modules of this directory must not shadow others

import os

from twinlog.cli.main import cli
from twinlog.cli.main import main as command
from twinlog.spark.session import SUBMITTED


def main() -> None:
    cli.context_settings["default_map"] = {name: {"master": SUBMITTED} for name in ("run", "serve")}
    command()


if __name__ == "__main__":
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        main()
    else:
        print(os.path.realpath(__file__))
