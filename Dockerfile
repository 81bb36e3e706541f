# syntax=docker/dockerfile:1
# Twinlog with Spark and a Java runtime: the `twinlog` command, Spark's driver, and its executors on Kubernetes.
#
#   docker build -t twinlog .
#   docker run --rm -v "$PWD/mm2.properties:/srv/twinlog/mm2.properties:ro" twinlog run mm2.properties
#
# Installed by scripts/install, like `make` and CI.
#
# For a reproducible build, pin the base image by its digest (docker buildx imagetools inspect BASE):
#   docker build --build-arg BASE_DIGEST=sha256:... -t twinlog .
ARG BASE=python:3.11-slim-bookworm
ARG BASE_DIGEST=

FROM ${BASE}${BASE_DIGEST:+@$BASE_DIGEST} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Not pinned, to get Debian's updates; everything else is pinned in requirements/.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --no-install-recommends --yes libgssapi-krb5-2 libnss-wrapper openjdk-17-jre-headless tini \
  && rm -rf /var/lib/apt/lists/* \
  && ln -s "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" /opt/java
ENV JAVA_HOME=/opt/java

FROM base AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY scripts scripts
COPY src src
RUN scripts/install /opt/twinlog
COPY --chmod=755 docker/settle /src/docker/settle
RUN docker/settle /opt/twinlog
# Otherwise created at the first start: Java's class archive, Numba's compiled code, Spark's home with Python's bytecode.
ENV TWINLOG_CACHE=/opt/twinlog/cache
RUN /opt/twinlog/bin/python -m twinlog.spark.class_archive \
  && /opt/twinlog/bin/python -c 'import twinlog.kafka.native' \
  && /opt/twinlog/bin/python -c 'from pathlib import Path; from twinlog.spark import spark_home; spark_home.overlay(Path("/opt/made"))' \
  && mv /opt/made/spark-* /opt/spark \
  && mkdir /opt/spark/conf \
  && cp src/twinlog/cli/spark_submit.py /opt/twinlog/bin/twinlog-submit.py
COPY --chmod=755 docker/entrypoint docker/health /opt/twinlog/bin/
# All code belongs to root, so that a compromised process cannot change it. Caches are created for their user only:
# here they are made readable for all.
RUN chmod -R a+rX,go-w /opt/twinlog /opt/spark

FROM base
LABEL org.opencontainers.image.title="twinlog" \
  org.opencontainers.image.description="Geo-replication between Kafka clusters, compatible with MirrorMaker 2" \
  org.opencontainers.image.licenses="Apache-2.0"
# The user id of Spark's own images; in group 0, so that the container also works with arbitrary user ids.
RUN useradd --uid 185 --gid 0 --create-home --home-dir /home/twinlog twinlog \
  && chmod g=u /home/twinlog
COPY --from=build /opt/spark /opt/spark
COPY --from=build /opt/twinlog /opt/twinlog
ENV PATH=/opt/twinlog/bin:$PATH \
  PYSPARK_PYTHON=/opt/twinlog/bin/python \
  SPARK_HOME=/opt/spark \
  TWINLOG_CACHE=/opt/twinlog/cache \
  TWINLOG_HEALTH_FILE=/tmp/twinlog-health
WORKDIR /srv/twinlog
USER 185
# Java silently ignores a class archive that does not match: this check fails the build instead.
RUN ["/opt/twinlog/bin/python", "-m", "twinlog.spark.class_archive", "--check"]
# The HTTP port of `twinlog run --port` and `twinlog serve`.
EXPOSE 8083
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s CMD ["/opt/twinlog/bin/health"]
ENTRYPOINT ["/opt/twinlog/bin/entrypoint"]
CMD ["--help"]
