#!/usr/bin/env bash
# Submits Twinlog to a Spark cluster whose machines have Java and Spark, and nothing of Twinlog.
#
#   scripts/pack twinlog-env.tar.gz
#   SPARK_HOME=/opt/spark ./submit.sh spark://spark-1:7077 twinlog-env.tar.gz run mm2.properties
#
# Behind the archive stands what `twinlog` takes. More settings for Spark: SPARK_OPTIONS="--conf spark.cores.max=4".
# The driver runs here, so here the configuration is read; the archive is unpacked here, too (in ./env), because the
# driver's Python must be found by the same name as the executors'.
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
