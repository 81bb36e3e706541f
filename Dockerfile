# syntax=docker/dockerfile:1
# Twinlog with Spark and a Java runtime: the `twinlog` command, Spark's driver, and its executors on Kubernetes.
#
#   docker build -t twinlog .
#   docker run --rm -v "$PWD/mm2.properties:/srv/twinlog/mm2.properties:ro" twinlog run mm2.properties
#
# What is installed, and how, is scripts/install: the same that `make` and CI run.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian's own updates are wanted, so no versions are named; all else is pinned in requirements/.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --no-install-recommends --yes libgssapi-krb5-2 openjdk-17-jre-headless tini \
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
# What is otherwise made at the first start: Spark's home with Python's bytecode, Java's classes parsed, loops compiled.
ENV TWINLOG_CACHE=/opt/twinlog/cache
RUN /opt/twinlog/bin/python -m twinlog.pipeline.archive \
  && /opt/twinlog/bin/python -c 'import twinlog.kafka.native' \
  && /opt/twinlog/bin/python -c 'from pathlib import Path; from twinlog.pipeline import spark_home; spark_home.overlay(Path("/opt/made"))' \
  && mv /opt/made/spark-* /opt/spark \
  && mkdir /opt/spark/conf \
  && cp src/twinlog/surface/submit.py /opt/twinlog/bin/twinlog-submit.py
COPY --chmod=755 docker/entrypoint docker/health /opt/twinlog/bin/
# The loops are compiled anew on another kind of processor, by whatever user a platform gives the container.
RUN chmod -R g=u /opt/twinlog/cache

FROM base
LABEL org.opencontainers.image.title="twinlog" \
  org.opencontainers.image.description="Keeps a Kafka cluster's twin: geo-replication between Kafka clusters, compatible with MirrorMaker 2" \
  org.opencontainers.image.licenses="Apache-2.0"
# The number that Spark's own images have; in group 0, so that any other may stand in for it.
RUN useradd --uid 185 --gid 0 --create-home --home-dir /home/twinlog twinlog \
  && chmod g=u /etc/passwd /home/twinlog \
  && install --directory --owner 185 --group 0 --mode 775 /srv/twinlog
COPY --from=build --chown=185:0 /opt/spark /opt/spark
COPY --from=build --chown=185:0 /opt/twinlog /opt/twinlog
ENV PATH=/opt/twinlog/bin:$PATH \
  PYSPARK_PYTHON=/opt/twinlog/bin/python \
  SPARK_HOME=/opt/spark \
  TWINLOG_CACHE=/opt/twinlog/cache
USER 185
WORKDIR /srv/twinlog
# Where `twinlog run --port` and `twinlog serve` are asked how they are.
EXPOSE 8083
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s CMD ["/opt/twinlog/bin/health"]
ENTRYPOINT ["/opt/twinlog/bin/entrypoint"]
CMD ["--help"]
