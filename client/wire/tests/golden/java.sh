#!/bin/sh
# What Apache Kafka's own tools do while record.py listens. Arguments: the recorder's port, and a command that runs a
# class of Kafka (java -cp 'LIBS/*', for example).
#   record.py --listen PORT --broker BROKER --client java-4.2 -- ./java.sh PORT java -cp 'LIBS/*'
set -eu
broker=127.0.0.1:$1
shift
tools=org.apache.kafka.tools
"$@" $tools.TopicCommand --bootstrap-server "$broker" --create --topic golden-java --partitions 2 --config retention.ms=3600000
"$@" $tools.TopicCommand --bootstrap-server "$broker" --alter --topic golden-java --partitions 3
"$@" $tools.TopicCommand --bootstrap-server "$broker" --describe --topic golden-java
seq 20 | "$@" $tools.ConsoleProducer --bootstrap-server "$broker" --topic golden-java
"$@" $tools.consumer.ConsoleConsumer --bootstrap-server "$broker" --topic golden-java --from-beginning --max-messages 20
"$@" $tools.GetOffsetShell --bootstrap-server "$broker" --topic golden-java
"$@" kafka.admin.ConfigCommand --bootstrap-server "$broker" --alter --topic golden-java --add-config segment.ms=60000
"$@" kafka.admin.ConfigCommand --bootstrap-server "$broker" --describe --topic golden-java
"$@" $tools.TopicCommand --bootstrap-server "$broker" --delete --topic golden-java
