// kafka-clients with its default settings (an idempotent producer, acks=all). Answers the commands of
// ci/clients/adapter.py, a line each on stdin.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class Client {
    private static final HexFormat HEX = HexFormat.of();
    private final String bootstrap;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 1 && args[1].equals("member")) {
            Member.join(args);
            return;
        }
        Client client = new Client(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintWriter out = new PrintWriter(System.out, false);
        for (String line; (line = in.readLine()) != null; out.flush()) {
            try {
                for (Object answer : client.answer(line.trim().split("\\s+"))) {
                    out.println(answer);
                }
                out.println("done");
            } catch (Exception why) {
                why.printStackTrace();
                out.println("failed " + String.valueOf(why).replaceAll("\\s+", " "));
            }
        }
    }

    private List<?> answer(String[] c) throws Exception {
        return switch (c[0]) {
            case "version" -> List.of(AppInfoParser.getVersion());
            case "create" -> create(c[1], Integer.parseInt(c[2]));
            case "write" -> write(c[1], c[2], c[3]);
            case "read" -> read(c);
            case "offset-for" -> offsetFor(place(c), Long.parseLong(c[3]));
            case "bounds" -> bounds(place(c));
            case "newest" -> newest(place(c));
            case "out-of-range" -> outOfRange(place(c), Long.parseLong(c[3]), c[4]);
            case "transactional" -> transactional(Long.parseLong(c[1]));
            default -> throw new IllegalArgumentException("no command " + c[0]);
        };
    }

    private static TopicPartition place(String[] c) {
        return new TopicPartition(c[1], Integer.parseInt(c[2]));
    }

    private Properties settings(String... pairs) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            p.put(pairs[i], pairs[i + 1]);
        }
        return p;
    }

    private KafkaProducer<byte[], byte[]> producer(String... pairs) {
        return new KafkaProducer<>(settings(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties p = settings(pairs);
        p.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<?> create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        return List.of();
    }

    private List<String> write(String topic, String codec, String path) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
            for (String line : Files.readAllLines(Path.of(path))) {
                String[] f = line.split(" ");
                List<Header> headers = new ArrayList<>();
                for (String h : f[5].equals("-") ? new String[0] : f[5].split(",")) {
                    String[] nv = h.split("=");
                    headers.add(new RecordHeader(new String(bytes(nv[0]), "UTF-8"), bytes(nv[1])));
                }
                sent.add(producer.send(new ProducerRecord<>(
                        topic, Integer.valueOf(f[0]), Long.valueOf(f[2]), bytes(f[3]), bytes(f[4]), headers)));
            }
        }
        List<String> acknowledged = new ArrayList<>();
        for (Future<RecordMetadata> f : sent) {
            acknowledged.add(f.get().partition() + " " + f.get().offset());
        }
        return acknowledged;
    }

    private List<?> read(String[] c) throws Exception {
        Map<Integer, Long> ends = new HashMap<>();
        StringBuilder got = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            Map<TopicPartition, Long> firsts = new HashMap<>();
            for (int i = 3; i < c.length; i++) {
                String[] part = c[i].split(":");
                if (!part[1].equals(part[2])) {
                    firsts.put(new TopicPartition(c[1], Integer.parseInt(part[0])), Long.valueOf(part[1]));
                    ends.put(Integer.valueOf(part[0]), Long.valueOf(part[2]));
                }
            }
            consumer.assign(firsts.keySet());
            firsts.forEach(consumer::seek);
            long until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (!ends.isEmpty() && System.nanoTime() < until) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    Long end = ends.get(r.partition());
                    if (end == null || r.offset() >= end) {
                        continue;
                    }
                    got.append(line(r)).append('\n');
                    if (r.offset() + 1 == end) {
                        ends.remove(r.partition());
                    }
                }
            }
        }
        if (!ends.isEmpty()) {
            throw new IllegalStateException("still waiting for " + ends + " after 60 s");
        }
        Files.writeString(Path.of(c[2]), got);
        return List.of();
    }

    private List<?> offsetFor(TopicPartition place, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            var found = consumer.offsetsForTimes(Map.of(place, timestamp)).get(place);
            return List.of(found == null ? "none" : found.offset());
        }
    }

    private List<?> bounds(TopicPartition place) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> one = List.of(place);
            return List.of(consumer.beginningOffsets(one).get(place) + " " + consumer.endOffsets(one).get(place));
        }
    }

    /** The offset of the record with the largest timestamp. */
    private List<?> newest(TopicPartition place) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            var found = admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).partitionResult(place).get();
            return List.of(found.offset());
        }
    }

    private List<?> outOfRange(TopicPartition place, long offset, String where) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", where)) {
            consumer.assign(List.of(place));
            consumer.seek(place, offset);
            long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (System.nanoTime() < until) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    return List.of(r.offset());
                }
                // Reset to the end there is nothing to read: the position tells.
                if (where.equals("latest") && consumer.position(place) < offset) {
                    return List.of(consumer.position(place));
                }
            }
            throw new IllegalStateException("neither a record nor an error in 30 s");
        } catch (OffsetOutOfRangeException why) {
            return List.of("OFFSET_OUT_OF_RANGE");
        }
    }

    private List<?> transactional(long timeoutSeconds) {
        String limit = String.valueOf(timeoutSeconds * 1000);
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", "t", "max.block.ms", limit)) {
            producer.initTransactions();
            return List.of("accepted");
        } catch (TimeoutException why) {
            throw why;
        } catch (KafkaException why) {
            Throwable cause = why.getCause() == null ? why : why.getCause();
            return List.of(cause.getClass().getSimpleName());
        }
    }

    private static byte[] bytes(String text) {
        return text.equals("~") ? null : HEX.parseHex(text.substring(1));
    }

    private static String text(byte[] data) {
        return data == null ? "~" : "x" + HEX.formatHex(data);
    }

    private static String line(ConsumerRecord<byte[], byte[]> r) throws Exception {
        List<String> headers = new ArrayList<>();
        for (Header h : r.headers()) {
            headers.add(text(h.key().getBytes("UTF-8")) + "=" + text(h.value()));
        }
        String joined = headers.isEmpty() ? "-" : String.join(",", headers);
        return String.join(" ", String.valueOf(r.partition()), String.valueOf(r.offset()),
                String.valueOf(r.timestamp()), text(r.key()), text(r.value()), joined);
    }
}
