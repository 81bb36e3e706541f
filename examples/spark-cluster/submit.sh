#!/usr/bin/env bash
# Submits Twinlog to a Spark cluster whose machines have Java and Spark, but not Twinlog.
#
#   scripts/pack twinlog-env.tar.gz
#   SPARK_HOME=/opt/spark ./submit.sh spark://spark-1:7077 twinlog-env.tar.gz run mm2.properties
#
# The arguments after the archive are those of `twinlog`. More Spark settings: SPARK_OPTIONS="--conf spark.cores.max=4".
# The driver runs here, so the configuration is read here. The archive is also unpacked here (in ./env), because the
# driver and the executors must find Python at the same path.
set -euo pipefail
master=${1:?usage: submit.sh MASTER ARCHIVE run mm2.properties}
archive=${2:?usage: submit.sh MASTER ARCHIVE run mm2.properties}
shift 2
spark=${SPARK_HOME:?set SPARK_HOME to the folder of Spark 4.3}

if [ ! -x env/bin/python ] || [ "$archive" -nt env ]; then
  rm -rf env && mkdir env && tar -xzf "$archive" -C env
fi
# shellcheck disable=SC2086  # several words
exec "$spark/bin/spark-submit" --master "$master" --name twinlog \
  --archives "$archive#env" --conf spark.pyspark.python=./env/bin/python \
  ${SPARK_OPTIONS:-} env/bin/twinlog-submit.py "$@"
