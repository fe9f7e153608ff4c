package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.TaskState;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.StoreBuilder;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A store that is open in a task directory, with the task around it. */
final class OpenStore {

    private static final TaskId TASK = new TaskId(0, 0);
    private static final long DEFAULT_CACHE_BYTES = 1L << 20;

    private final StateStore store;
    private final Operations operations;
    private final StoreContext context;
    private final TaskState task;
    private final TopicPartition changelog;

    /** Open as the request says; a store that cannot be opened leaves nothing open. */
    static OpenStore of(final Request request) {
        final StoreKind kind = StoreKind.of(request);
        final StoreBuilder<?> builder = kind.builder();
        if (request.flag("logging")) {
            builder.withLoggingEnabled(Map.of());
        } else {
            builder.withLoggingDisabled();
        }
        final boolean caching = request.flag("caching");
        if (caching) {
            builder.withCachingEnabled();
        } else {
            builder.withCachingDisabled();
        }
        final long cacheBytes = caching ? request.number("cache_bytes", DEFAULT_CACHE_BYTES) : 0;
        final boolean exactlyOnce = request.flag("exactly_once");
        final File directory = new File(request.text("dir")).getAbsoluteFile();
        if (!directory.isDirectory() && !directory.mkdirs()) {
            throw new BadRequest("cannot make the task directory " + directory);
        }
        final StreamsConfig config = new StreamsConfig(Map.of(
            StreamsConfig.APPLICATION_ID_CONFIG, request.text("application", "interop"),
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1",
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE));
        final TopicPartition changelog = changelog(request, config, builder.name());
        request.refuseUnread();
        final TaskState task = new TaskState(
            config, TASK, directory, builder.name(), changelog, exactlyOnce);
        final StoreContext context = StoreContext.of(TASK, config, task.manager(), cacheBytes);
        final StateStore store = builder.build();
        try {
            task.open(store, context);
        } catch (final RuntimeException failure) {
            task.close();
            throw failure;
        }
        return new OpenStore(store, kind.operations().apply(store), context, task, changelog);
    }

    /** The changelog: the one asked for, none where null is asked for, else Kafka's own name for it. */
    private static TopicPartition changelog(
        final Request request, final StreamsConfig config, final String store
    ) {
        if (request.has("changelog") && request.node("changelog").isNull()) {
            return null;
        }
        final String application = config.getString(StreamsConfig.APPLICATION_ID_CONFIG);
        return new TopicPartition(
            request.text("changelog", application + "-" + store + "-changelog"), TASK.partition());
    }

    private OpenStore(
        final StateStore store,
        final Operations operations,
        final StoreContext context,
        final TaskState task,
        final TopicPartition changelog
    ) {
        this.store = store;
        this.operations = operations;
        this.context = context;
        this.task = task;
        this.changelog = changelog;
    }

    JsonNode run(final String operation, final Request request) {
        context.setRecord(request.part("record"));
        switch (operation) {
            case "commit":
                if (request.has("offset") && changelog == null) {
                    throw new BadRequest("a store without a changelog is committed without an offset");
                }
                task.commit(request.has("offset") ? request.number("offset") : null);
                return state();
            case "flush":
                task.flushCache();
                return state();
            case "state":
                return state();
            case "restore":
                task.restore(records(request.node("records")));
                return state();
            case "changelog":
                return context.takeLogged();
            default:
                return operations.run(operation, request);
        }
    }

    /** Records of the changelog: {offset, timestamp, key, value, headers} each. */
    private List<ConsumerRecord<byte[], byte[]>> records(final JsonNode given) {
        if (changelog == null) {
            throw new BadRequest("a store without a changelog is not restored");
        }
        final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (final JsonNode node : given) {
            final Request record = new Request(node);
            records.add(new ConsumerRecord<>(
                changelog.topic(), changelog.partition(), record.number("offset"),
                record.number("timestamp"), TimestampType.CREATE_TIME, 0, 0, record.bytes("key"),
                record.bytes("value"), record.headers("headers"), Optional.empty()));
            record.refuseUnread();
        }
        return records;
    }

    /** The offset committed in the store (-4: unknown, null: none) and the position of its contents. */
    JsonNode state() {
        final ObjectNode state = JsonNodeFactory.instance.objectNode();
        state.put("store", store.name());
        state.put("changelog", changelog == null ? null : changelog.toString());
        state.put("committed_offset", changelog == null ? null : store.committedOffset(changelog));
        final ObjectNode topics = state.putObject("position");
        final Position position = store.getPosition();
        for (final String topic : position.getTopics()) {
            final ObjectNode partitions = topics.putObject(topic);
            position.getPartitionPositions(topic).forEach(
                (partition, offset) -> partitions.put(partition.toString(), offset));
        }
        return state;
    }

    void close() {
        task.close();
    }
}
