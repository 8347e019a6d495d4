import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Kafka Streams application that counts records by a new key (so it has a repartition topic, a store and its changelog),
 * exactly once, and begins anew on another cluster when the endpoint file says so.
 *
 * <p>Arguments: endpoint file, application id, topic to read, topic to write, state folder, further properties
 * (k=v;k=v or -). An event per line on standard output.
 */
public final class Streams {
    private static final Pattern SERVERS = Pattern.compile("\"bootstrap_servers\"\\s*:\\s*\"([^\"]+)\"");

    private Streams() {}

    static synchronized void tell(Object... words) {
        StringBuilder line = new StringBuilder().append(System.currentTimeMillis());
        for (Object word : words) {
            line.append(' ').append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    static String servers(Path file) throws java.io.IOException {
        Matcher found = SERVERS.matcher(Files.readString(file));
        return found.find() ? found.group(1) : "";
    }

    static StreamsBuilder counting(String from, String to, String servers) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(from)
                .peek((key, value) -> tell("G", servers, value))
                .selectKey((key, value) -> "k" + Math.floorMod(value.hashCode(), 5))
                .groupByKey(Grouped.as("by-key"))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(String::valueOf)
                .to(to, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[0]);
        Properties properties = new Properties();
        properties.put("application.id", arguments[1]);
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("commit.interval.ms", "200");
        properties.put("num.standby.replicas", "0");
        properties.put("auto.offset.reset", "earliest");
        properties.put("statestore.cache.max.bytes", "0");
        for (String each : arguments[5].equals("-") ? new String[0] : arguments[5].split(";")) {
            String[] sides = each.split("=", 2);
            properties.put(sides[0], sides[1]);
        }
        while (true) {
            String servers = servers(file);
            properties.put("bootstrap.servers", servers);
            // The offsets beside the stores are those of one cluster's changelog topics: a folder for each cluster.
            properties.put("state.dir", arguments[4] + "-" + servers.replaceAll("\\W", "-"));
            one(properties, servers, file, arguments[2], arguments[3]);
        }
    }

    /** On one cluster, until the file names another or the application ends by itself. */
    private static void one(Properties properties, String servers, Path file, String from, String to) throws Exception {
        KafkaStreams app = new KafkaStreams(counting(from, to, servers).build(), properties);
        app.setStateListener((now, before) -> tell("S", servers, now));
        app.setUncaughtExceptionHandler(error -> {
            for (Throwable each = error; each != null; each = each.getCause()) {
                tell("E", servers, each.getClass().getSimpleName(), String.valueOf(each.getMessage()).replace('\n', ' '));
            }
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        app.start();
        while (servers(file).equals(servers) && app.state() != KafkaStreams.State.ERROR) {
            Thread.sleep(50);
        }
        if (servers(file).equals(servers)) {
            app.close(Duration.ofSeconds(2));
            Thread.sleep(500);
        } else {
            // A thread that waits for a fenced cluster ends much later; nothing waits for that.
            Thread ending = new Thread(() -> tell("M", servers, app.close(Duration.ofSeconds(60))));
            ending.setDaemon(true);
            ending.start();
        }
    }
}
