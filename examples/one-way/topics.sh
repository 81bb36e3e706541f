#!/bin/sh
# Creates the two topics on rdc. Twinlog creates those on ord.
# kafka-topics.sh is part of Kafka; set KAFKA_TOPICS if it is not on the PATH.
set -eu
rdc=node001.dev.dpl.kafka.cnvr.net:9092,node002.dev.dpl.kafka.cnvr.net:9092,node003.dev.dpl.kafka.cnvr.net:9092
topics=${KAFKA_TOPICS:-kafka-topics.sh}

$topics --bootstrap-server "$rdc" --create --if-not-exists --topic DmmAccess --partitions 6 --replication-factor 3
$topics --bootstrap-server "$rdc" --create --if-not-exists --topic apache-logs --partitions 15 --replication-factor 3
