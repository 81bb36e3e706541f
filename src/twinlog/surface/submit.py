"""Twinlog as a Spark application: `spark-submit ... submit.py run mm2.properties` takes all that `twinlog` takes.

spark-submit has started a JVM, which has started this program: `run` and `serve` use that Spark, whatever its master.
It wants a file with a name that ends in .py: this one; `python -m twinlog.surface.submit` tells where it is.
"""

import sys

if __name__ == "__main__" and sys.path[0] and __file__.startswith(sys.path[0]):
    del sys.path[0]  # modules of this folder are not to be taken for Python's own

import os

from twinlog.pipeline.session import SUBMITTED
from twinlog.surface.cli import cli
from twinlog.surface.cli import main as command


def main() -> None:
    cli.context_settings["default_map"] = {name: {"master": SUBMITTED} for name in ("run", "serve")}
    command()


if __name__ == "__main__":
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        main()
    else:
        print(os.path.realpath(__file__))
