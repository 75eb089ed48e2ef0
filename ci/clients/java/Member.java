// A member of a group, as ci/clients/member.py describes it.

import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

final class Member implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor", "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor", "cooperative-sticky", "CooperativeStickyAssignor");
    private final Set<TopicPartition> held = new HashSet<>();
    /** What was shown and is not committed yet: where to go on. */
    private final Map<TopicPartition, OffsetAndMetadata> shown = new HashMap<>();
    private KafkaConsumer<String, String> consumer;

    static void join(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[3]);
        p.put("session.timeout.ms", "6000");
        p.put("heartbeat.interval.ms", "500");
        p.put("metadata.max.age.ms", "1000");
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        for (String wish : Arrays.copyOfRange(args, 4, args.length)) {
            String value = wish.substring(wish.indexOf('=') + 1);
            switch (wish.substring(0, wish.indexOf('='))) {
                case "assignor" -> p.put("partition.assignment.strategy",
                        "org.apache.kafka.clients.consumer." + ASSIGNORS.get(value));
                case "instance" -> p.put("group.instance.id", value);
                case "session" -> p.put("session.timeout.ms", value);
                default -> throw new IllegalArgumentException(wish);
            }
        }
        AtomicBoolean leave = new AtomicBoolean();
        Thread stdin = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException why) {
                why.printStackTrace();
            }
            leave.set(true);
        });
        stdin.setDaemon(true);
        stdin.start();
        Member member = new Member();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            member.consumer = consumer;
            consumer.subscribe(Arrays.asList(args[2].split(",")), member);
            while (!leave.get()) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                    say(r.partition() + " " + r.offset() + " " + r.value());
                    member.shown.put(
                            new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                member.commit();
            }
        }
    }

    /** A cooperative member reads on during a rebalance, but cannot commit then: it tries again. */
    private void commit() {
        if (shown.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(shown);
        } catch (KafkaException why) { // also: the broker is away, or the group goes on without this member
            System.err.println("commit: " + why);
            return;
        }
        shown.forEach((place, offset) -> say("committed " + place.partition() + " " + offset.offset()));
        shown.clear();
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        held.addAll(places);
        TreeSet<String> all = new TreeSet<>();
        held.forEach(place -> all.add(place.topic() + ":" + place.partition()));
        say("assigned " + String.join(" ", all));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        commit();
        onPartitionsLost(places);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        held.removeAll(places);
        shown.keySet().removeAll(places);
    }
}
