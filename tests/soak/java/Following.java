import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's own clients in an application that follows the endpoint file: when the file names another cluster, the client
 * is closed and created anew.
 *
 * <p>A command per line on standard input, an event per line on standard output: see java_clients.py.
 */
public final class Following {
    private static final Pattern FIELD = Pattern.compile("\"(cluster_id|bootstrap_servers)\"\\s*:\\s*\"([^\"]+)\"");
    private static final long LOOK_MS = 100;
    private static final Duration CLOSE = Duration.ofMillis(500);
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();

    private Following() {}

    record Endpoint(String id, String servers) {
        static Endpoint read(Path file) throws java.io.IOException {
            Matcher found = FIELD.matcher(Files.readString(file));
            Map<String, String> fields = new LinkedHashMap<>();
            while (found.find()) {
                fields.put(found.group(1), found.group(2));
            }
            return new Endpoint(fields.get("cluster_id"), fields.get("bootstrap_servers"));
        }
    }

    static synchronized void tell(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    abstract static class Client extends Thread {
        final String name;
        final Path file;
        final Properties properties = new Properties();
        volatile boolean stopped;
        volatile Endpoint current;

        Client(String name, Path file, String given) {
            this.name = name;
            this.file = file;
            for (String each : given.equals("-") ? new String[0] : given.split(";")) {
                String[] sides = each.split("=", 2);
                properties.put(sides[0], sides[1]);
            }
            setDaemon(true);
        }

        boolean moved() {
            try {
                return !Endpoint.read(file).equals(current);
            } catch (java.io.IOException error) {
                return false;
            }
        }

        void failed(Throwable error) {
            tell("E", name, current.id(), error.getClass().getSimpleName());
        }

        @Override
        public void run() {
            while (!stopped) {
                try {
                    current = Endpoint.read(file);
                    properties.put("bootstrap.servers", current.servers());
                    work();
                } catch (Exception error) {
                    failed(error);
                }
            }
            tell("X", name);
        }

        abstract void work() throws Exception;
    }

    static final class Reader extends Client {
        private final List<String> topics;
        private volatile KafkaConsumer<String, String> consumer;

        Reader(String name, Path file, String given, List<String> topics) {
            super(name, file, given);
            this.topics = topics;
            Thread watch = new Thread(this::watch);
            watch.setDaemon(true);
            watch.start();
        }

        /** Interrupts a call that waits for a cluster which clients have left. */
        private void watch() {
            while (!stopped) {
                pause();
                KafkaConsumer<String, String> waiting = consumer;
                if (waiting != null && moved()) {
                    waiting.wakeup();
                }
            }
        }

        @Override
        void work() {
            KafkaConsumer<String, String> own =
                    new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            try {
                own.subscribe(topics);
                consumer = own;
                while (!stopped && !moved()) {
                    round(own);
                }
            } catch (WakeupException woken) {
                failed(woken);
            } finally {
                consumer = null;
                own.close(CloseOptions.timeout(CLOSE));
            }
        }

        private void round(KafkaConsumer<String, String> own) {
            ConsumerRecords<String, String> records = own.poll(Duration.ofMillis(100));
            for (ConsumerRecord<String, String> r : records) {
                tell("G", name, current.id(), r.topic(), r.partition(), r.offset(), System.currentTimeMillis(), r.value());
            }
            if (!records.isEmpty()) {
                own.commitSync();
                records.nextOffsets()
                        .forEach((at, next) -> tell("C", name, current.id(), at.topic(), at.partition(), next.offset()));
            }
        }
    }

    static final class Writer extends Client {
        private final String topic;
        private final Map<String, Boolean> pending = new LinkedHashMap<>();
        private int number;

        Writer(String name, Path file, String given, String topic) {
            super(name, file, given);
            this.topic = topic;
        }

        @Override
        void work() throws Exception {
            KafkaProducer<String, String> own =
                    new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
            try {
                again(own);
                while (!stopped && !moved()) {
                    String value = name + " " + number++;
                    synchronized (pending) {
                        pending.put(value, true);
                    }
                    send(own, value);
                    pause();
                    again(own);
                }
                if (stopped) {
                    own.flush();
                }
            } finally {
                own.close(stopped ? Duration.ofSeconds(10) : Duration.ZERO);
                uncertain();
            }
        }

        /** What a cluster refused, or has not answered when clients left it. */
        private void again(KafkaProducer<String, String> own) {
            List<String> refused;
            synchronized (pending) {
                refused = pending.entrySet().stream().filter(e -> !e.getValue()).map(Map.Entry::getKey).toList();
                refused.forEach(value -> pending.put(value, true));
            }
            refused.forEach(value -> send(own, value));
        }

        private void uncertain() {
            synchronized (pending) {
                pending.forEach((value, sent) -> tell("U", name, current.id(), value));
                pending.replaceAll((value, sent) -> false);
            }
        }

        private void send(KafkaProducer<String, String> own, String value) {
            Endpoint to = current;
            own.send(new ProducerRecord<>(topic, value, value), (where, error) -> {
                synchronized (pending) {
                    if (error == null) {
                        tell("A", name, to.id(), where.topic(), where.partition(), where.offset(), value);
                        pending.remove(value);
                    } else {
                        tell("E", name, to.id(), error.getClass().getSimpleName());
                        pending.replace(value, false);
                    }
                }
            });
        }
    }

    static void pause() {
        try {
            Thread.sleep(LOOK_MS / 2);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        tell("READY");
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            Path file = words.length > 2 ? Path.of(words[2]) : null;
            switch (words[0]) {
                case "consumer" -> begin(new Reader(words[1], file, words[3], List.of(words[4].split(","))));
                case "producer" -> begin(new Writer(words[1], file, words[3], words[4]));
                default -> end(CLIENTS.remove(words[1]));
            }
        }
    }

    private static void end(Client client) {
        if (client != null) {
            client.stopped = true;
        }
    }

    private static void begin(Client client) {
        CLIENTS.put(client.name, client);
        client.start();
    }
}
