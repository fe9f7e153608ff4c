package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;

/** A topology of interpreted processors in Kafka's own test driver; tests/processing/programs.py describes it. */
final class TopologyProgram {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final String APPLICATION = "app";

    private TopologyProgram() {
    }

    static JsonNode describe(final JsonNode program) {
        return TextNode.valueOf(topology(program).describe().toString());
    }

    static JsonNode run(final JsonNode program) throws IOException {
        final Path directory = Files.createTempDirectory("kstore-topology");
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        final Instant start = Instant.ofEpochMilli(program.get("start_ms").longValue());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(program), config, start)) {
            for (final JsonNode input : program.get("inputs")) {
                if (input.has("advance")) {
                    driver.advanceWallClockTime(Duration.ofMillis(input.get("advance").longValue()));
                } else {
                    driver
                        .createInputTopic(text(input.get("topic")), new StringSerializer(), new StringSerializer())
                        .pipeInput(new TestRecord<>(
                            text(input.get("key")), text(input.get("value")), headers(input),
                            input.get("timestamp").longValue()));
                }
            }
            return results(program, driver);
        } finally {
            delete(directory);
        }
    }

    private static org.apache.kafka.common.header.Headers headers(final JsonNode input) {
        return Steps.headers(input.get("headers"));
    }

    private static JsonNode results(final JsonNode program, final TopologyTestDriver driver) {
        final ObjectNode results = JSON.objectNode();
        final ObjectNode outputs = results.putObject("outputs");
        for (final JsonNode node : program.get("nodes")) {
            if (node.has("sink") && !outputs.has(text(node.get("topic")))) {
                outputs.set(text(node.get("topic")),
                    records(driver, text(node.get("topic")), new StringDeserializer(), TopologyProgram::text));
            }
        }
        final ObjectNode changelogs = results.putObject("changelogs");
        final ObjectNode contents = results.putObject("stores");
        for (final JsonNode store : program.get("stores")) {
            final String name = text(store.get("name"));
            changelogs.set(name, records(
                driver, APPLICATION + "-" + name + "-changelog", new ByteArrayDeserializer(), Values::hex));
            contents.set(name, new ProgramStore(store, driver.getAllStateStores().get(name)).dump(program));
        }
        return results;
    }

    private static <T> ArrayNode records(
        final TopologyTestDriver driver,
        final String topic,
        final Deserializer<T> deserializer,
        final Function<T, JsonNode> written
    ) {
        final ArrayNode records = JSON.arrayNode();
        final TestOutputTopic<T, T> output = driver.createOutputTopic(topic, deserializer, deserializer);
        for (final TestRecord<T, T> record : output.readRecordsToList()) {
            records.addArray()
                .add(written.apply(record.key()))
                .add(written.apply(record.value()))
                .add(record.timestamp())
                .add(Values.pairs(record.headers()));
        }
        return records;
    }

    private static Topology topology(final JsonNode program) {
        final Map<String, JsonNode> stores = new LinkedHashMap<>();
        program.get("stores").forEach(store -> stores.put(text(store.get("name")), store));
        final Set<String> added = new HashSet<>();
        final Topology topology = new Topology();
        for (final JsonNode node : program.get("nodes")) {
            if (node.has("source")) {
                topology.addSource(
                    text(node.get("source")), new StringDeserializer(), new StringDeserializer(),
                    texts(node.get("topics")));
            } else if (node.has("sink")) {
                topology.addSink(
                    text(node.get("sink")), text(node.get("topic")), new StringSerializer(),
                    new StringSerializer(), texts(node.get("parents")));
            } else {
                final String name = text(node.get("processor"));
                topology.addProcessor(
                    name, () -> new ProgramProcessor(node, stores), texts(node.get("parents")));
                for (final String store : texts(node.get("stores"))) {
                    if (added.add(store)) {
                        topology.addStateStore(
                            StoreKind.of(new Request(stores.get(store))).builder(), name);
                    } else {
                        topology.connectProcessorAndStateStores(name, store);
                    }
                }
            }
        }
        return topology;
    }

    static String text(final JsonNode node) {
        return node.isNull() ? null : node.textValue();
    }

    private static JsonNode text(final String value) {
        return value == null ? JSON.nullNode() : TextNode.valueOf(value);
    }

    private static String[] texts(final JsonNode node) {
        final String[] texts = new String[node.size()];
        for (int at = 0; at < texts.length; at++) {
            texts[at] = node.get(at).textValue();
        }
        return texts;
    }

    private static void delete(final Path directory) throws IOException {
        final List<Path> paths;
        try (Stream<Path> found = Files.walk(directory)) {
            paths = found.sorted(Comparator.reverseOrder()).toList();
        }
        paths.stream().map(Path::toFile).forEach(File::delete);
    }
}
