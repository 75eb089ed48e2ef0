# shellcheck shell=bash
# Sourced by ci/tools/run, whose helpers it uses: the tools that read, and those for consumer groups.
#
# What they are to print is what they print against Apache Kafka 4.2.

consumer() { tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$bootstrap" "$@" 2>&1; }
groups() {
  tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$bootstrap" "$@" 2>&1
}
# keyed FROM TO TOPIC: records `kN` with the value `vN` into its partition.
keyed() {
  seq "$1" "$2" | sed 's/.*/k&:v&/' |
    producer --topic "$3" --reader-property parse.key=true --reader-property key.separator=:
}
# squeezed: runs of blanks become one, and those at the end nothing, since the tools pad their columns.
squeezed() { sed 's/[[:blank:]]\+/ /g; s/ $//'; }

console_consumer() {
  local out
  topics --create --topic read --partitions 1
  keyed 1 100 read
  out=$(consumer --topic read --from-beginning --max-messages 3 --timeout-ms 30000 \
    --formatter-property print.key=true --formatter-property print.offset=true \
    --formatter-property print.partition=true --formatter-property print.timestamp=true \
    --formatter-property print.headers=true --formatter-property key.separator='|')
  expect_like "$out" '^CreateTime:[0-9]{13}\|Partition:0\|Offset:0\|NO_HEADERS\|k1\|v1$'
  expect_like "$out" '^CreateTime:[0-9]{13}\|Partition:0\|Offset:2\|NO_HEADERS\|k3\|v3$'
  expect "$out" "Processed a total of 3 messages"
  # Without a group, from a place in one partition.
  out=$(consumer --topic read --partition 0 --offset 97 --max-messages 3 --timeout-ms 30000)
  [ "$(grep '^v' <<<"$out")" = "$(printf 'v98\nv99\nv100')" ]
  out=$(consumer --topic read --partition 0 --offset earliest --max-messages 100 --timeout-ms 30000)
  cmp <(grep '^v' <<<"$out") <(seq 100 | sed 's/^/v/')
}

console_consumer_in_a_group() {
  local out
  out=$(consumer --topic read --group readers --from-beginning --max-messages 40 --timeout-ms 30000)
  cmp <(grep '^v' <<<"$out") <(seq 40 | sed 's/^/v/')
  # The next one goes on where that one was.
  out=$(consumer --topic read --group readers --from-beginning --max-messages 60 --timeout-ms 30000)
  cmp <(grep '^v' <<<"$out") <(seq 41 100 | sed 's/^/v/')
}

offsets_formatter() {
  local out
  out=$(consumer --topic __consumer_offsets --from-beginning --timeout-ms 10000 \
    --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter)
  for offset in 40 100; do
    expect_like "$out" "\{\"key\":\{\"type\":1,\"data\":\{\"group\":\"readers\",\"topic\":\"read\",\"partition\":0\}\},\"value\":\{\"version\":4,\"data\":\{\"offset\":$offset,\"leaderEpoch\":(-1|0),\"metadata\":\"\",\"commitTimestamp\":[0-9]{13}"
  done
  lacks "$out" "Exception|Could not"
}

groups_list() {
  local out
  out=$(groups --list)
  expect "$out" readers
  out=$(groups --list --state | squeezed)
  expect "$out" "GROUP STATE"
  expect "$out" "readers Empty"
  out=$(groups --list --type | squeezed)
  expect "$out" "GROUP TYPE"
  expect "$out" "readers Classic"
  out=$(groups --list --state Stable | squeezed)
  lacks "$out" "^readers"
  out=$(groups --list --state Empty --type classic | squeezed)
  expect "$out" "readers Classic Empty"
  out=$(tool org.apache.kafka.tools.GroupsCommand --bootstrap-server "$bootstrap" --list | squeezed)
  expect "$out" "GROUP TYPE PROTOCOL"
  expect "$out" "readers Classic consumer"
  out=$(tool org.apache.kafka.tools.GroupsCommand --bootstrap-server "$bootstrap" --list --share | squeezed)
  lacks "$out" "^readers"
}

groups_describe_empty() {
  local out
  out=$(groups --describe --group readers | squeezed)
  expect "$out" "Consumer group 'readers' has no active members."
  expect "$out" "readers read 0 100 100 0 - - -"
  keyed 101 110 read
  out=$(groups --describe --group readers --offsets | squeezed)
  expect "$out" "readers read 0 100 110 10 - - -"
  out=$(groups --describe --group readers --state | squeezed)
  expect_like "$out" "^readers 127\.0\.0\.1:[0-9]+ \(100[01]\) - Empty 0$"
  out=$(groups --describe --group readers --members | squeezed)
  lacks "$out" "^readers "
  out=$(groups --describe --all-groups | squeezed)
  expect "$out" "readers read 0 100 110 10 - - -"
  out=$(groups --describe --group nobody)
  expect_like "$out" "GroupIdNotFoundException: Group nobody not found\.$"
}

# stable GROUP COUNT: it has so many members and is stable.
stable() { groups --describe --group "$1" --state | squeezed | grep -qE " Stable $2\$"; }

# member NAME [ARGUMENTS...]: a consumer of `shared` in the group `live`, in the background; sets member.
member() {
  local name=$1
  shift
  java -Xmx256M -Dlog4j2.configurationFile=ci/peers/log4j2.xml -Dkafka.logs.dir="$folder" \
    -cp "$made/kafka-peer/libs/*" org.apache.kafka.tools.consumer.ConsoleConsumer \
    --bootstrap-server "$bootstrap" --topic shared --group live --from-beginning \
    --command-property "client.id=$name" --command-property auto.commit.interval.ms=200 "$@" >"$folder/$name" 2>&1 &
  member=$!
}

groups_describe_members() {
  local out first second
  topics --create --topic shared --partitions 4
  seq 100 | producer --topic shared
  member one
  first=$member
  member two --command-property group.instance.id=static-two
  second=$member
  # shellcheck disable=SC2064  # these two, and not those of another check
  trap "kill $first $second 2>/dev/null || true" EXIT
  wait_until 60 "$first" stable live 2
  out=$(groups --describe --group live --members --verbose | squeezed)
  expect_like "$out" "^GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT$"
  expect_like "$out" "^live one-[0-9a-f-]{36} /127\.0\.0\.1 one 2 - shared:(0,1|2,3) - -$"
  expect_like "$out" "^live static-two-[0-9a-f-]{36} static-two /127\.0\.0\.1 two 2 - shared:(0,1|2,3) - -$"
  out=$(groups --describe --group live --state | squeezed)
  expect_like "$out" "^live 127\.0\.0\.1:[0-9]+ \(100[01]\) range Stable 2$"
  all_read() { [ "$(groups --describe --group live | squeezed | grep -cE '^live shared [0-3] ([0-9]+) \1 0 ')" -eq 4 ]; }
  wait_until 60 "$first" all_read
  # What a group is told not to do while it has members.
  out=$(groups --reset-offsets --group live --topic shared --to-earliest --execute)
  expect_like "$out" "Assignments can only be reset if the group 'live' is inactive, but the current state is Stable"
  out=$(groups --delete --group live)
  expect_like "$out" "GroupNotEmptyException"
  out=$(groups --delete-offsets --group live --topic shared)
  expect_like "$out" "GroupSubscribedToTopicException|GROUP_SUBSCRIBED_TO_TOPIC|actively subscribed"
  # The one that is not static leaves, and the other one takes all.
  kill "$first"
  wait_until 60 "$second" stable live 1
  out=$(groups --describe --group live --members | squeezed)
  expect_like "$out" "^live static-two-[0-9a-f-]{36} static-two /127\.0\.0\.1 two 4$"
}

# reset WANTED ARGUMENT...: --execute says so, and it is so.
reset() {
  local want=$1 out
  shift
  out=$(groups --reset-offsets --group readers --topic read --execute "$@" | squeezed)
  expect "$out" "readers read 0 $want"
  out=$(groups --describe --group readers | squeezed)
  expect_like "$out" "^readers read 0 $want 110 $((110 - want)) "
}

groups_reset() {
  local out middle
  # --dry-run says the same, and changes nothing.
  out=$(groups --reset-offsets --group readers --topic read --dry-run --to-earliest | squeezed)
  expect "$out" "readers read 0 0"
  out=$(groups --describe --group readers | squeezed)
  expect_like "$out" "^readers read 0 100 110 10 "
  reset 0 --to-earliest
  reset 110 --to-latest
  reset 30 --to-offset 30
  reset 37 --shift-by 7
  reset 17 --shift-by -20
  reset 17 --to-current
  reset 0 --to-datetime 2020-01-01T00:00:00.000
  # The second batch came later than the first, and records of a time that is yet to come there are none.
  middle=$(consumer --topic read --partition 0 --offset 100 --max-messages 1 --timeout-ms 30000 \
    --formatter-property print.timestamp=true | sed -n 's/^CreateTime:\([0-9]*\).*/\1/p')
  reset 100 --to-datetime "$(date -u -d "@${middle::-3}.${middle: -3}" +%Y-%m-%dT%H:%M:%S.%3N)"
  reset 0 --by-duration P1D
  reset 110 --by-duration PT0S
  # Beyond the ends they are taken for the ends.
  reset 110 --to-offset 5000
  reset 0 --shift-by -5000
  # Written to a file by one, and taken from it by another.
  groups --reset-offsets --group readers --topic read --to-offset 55 --dry-run --export |
    grep '^read,0,55$' >"$folder/offsets.csv"
  out=$(groups --reset-offsets --group readers --from-file "$folder/offsets.csv" --execute | squeezed)
  expect "$out" "readers read 0 55"
  # A consumer takes it up from there.
  out=$(consumer --topic read --group readers --max-messages 1 --timeout-ms 30000)
  expect "$out" v56
  out=$(groups --reset-offsets --group readers --topic nowhere --to-earliest --execute)
  expect_like "$out" "UnknownTopicOrPartitionException|does not exist|[Nn]ot (found|exist)"
}

groups_delete() {
  local out
  topics --create --topic other --partitions 1
  groups --reset-offsets --group readers --topic other --to-latest --execute
  out=$(groups --delete-offsets --group readers --topic read | squeezed)
  expect "$out" "read 0 Successful"
  out=$(groups --describe --group readers | squeezed)
  lacks "$out" "^readers read"
  expect_like "$out" "^readers other 0 0 0 0 "
  out=$(groups --delete --group readers)
  expect_like "$out" "Deletion of requested consumer groups \('readers'\) was successful"
  out=$(groups --delete --group readers)
  expect_like "$out" "GroupIdNotFoundException"
  out=$(groups --list)
  lacks "$out" "^readers$"
}

verifiable() {
  local out
  topics --create --topic verified --partitions 2
  out=$(tool org.apache.kafka.tools.VerifiableProducer --bootstrap-server "$bootstrap" --topic verified \
    --max-messages 500 --acks -1)
  [ "$(grep -c '"name":"producer_send_success"' <<<"$out")" -eq 500 ]
  expect_like "$out" '"name":"tool_data","sent":500,"acked":500,'
  out=$(tool org.apache.kafka.tools.VerifiableConsumer --bootstrap-server "$bootstrap" --topic verified \
    --group-id verified --max-messages 500 --reset-policy earliest --session-timeout 10000 2>&1)
  expect_like "$out" '"name":"partitions_assigned"'
  expect_like "$out" '"name":"offsets_committed".*"success":true'
  lacks "$out" '"success":false'
  # Its last commit is what it read.
  out=$(groups --describe --group verified | squeezed | awk '$1 == "verified" { n += $4 } END { print n }')
  [ "$out" -eq 500 ]
}

consumer_perf_test() {
  local out
  out=$(tool org.apache.kafka.tools.ConsumerPerformance --bootstrap-server "$bootstrap" --topic perf \
    --num-records 20000 --group perf-readers --timeout 60000 2>&1)
  expect_like "$out" "^start.time, end.time, data.consumed.in.MB"
  expect_like "$out" "^[0-9-]+ [0-9:]+, [0-9-]+ [0-9:]+, [0-9.]+, [0-9.]+, 20[0-9]{3}, "
  lacks "$out" "WARNING: Exiting before consuming"
}
