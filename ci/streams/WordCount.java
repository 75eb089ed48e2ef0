// Kafka Streams' word count over a repartition and a changelog topic, as ci/streams/run starts it:
//
//   WordCount BOOTSTRAP APPLICATION STATE-FOLDER      counts `lines` into `counts` until stdin ends
//
// At least once. It prints each state that Streams comes into, so that the script can wait for one. A topology that
// Streams takes for lost ends the process with 1: over a restart of the broker that must not happen.

import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        p.put("auto.offset.reset", "earliest");
        p.put("session.timeout.ms", "10000");
        p.put("heartbeat.interval.ms", "1000");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.as("totals"))
                .toStream()
                .to("counts", Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        CountDownLatch over = new CountDownLatch(1);
        boolean[] lost = {false};
        streams.setUncaughtExceptionHandler(why -> {
            why.printStackTrace();
            lost[0] = true;
            over.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            System.out.flush();
        });
        Thread stdin = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException why) {
                why.printStackTrace();
            }
            over.countDown();
        });
        stdin.setDaemon(true);
        stdin.start();
        streams.start();
        over.await();
        boolean closed = streams.close(Duration.ofSeconds(30));
        System.out.println(closed ? "closed" : "not closed in time");
        System.exit(closed && !lost[0] ? 0 : 1);
    }
}
