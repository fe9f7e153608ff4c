package kstore.interop;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kstore.context.NoTopologyContext;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.StateManager;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * What a store sees of its task: the state manager, the input record that is being processed, and a
 * changelog that keeps its records in a list. There is no topology, so nothing can be forwarded.
 */
final class StoreContext extends NoTopologyContext {

    /** No input record: a store then leaves its position alone. */
    private static final ProcessorRecordContext NO_RECORD =
        new ProcessorRecordContext(-1L, -1L, -1, null, new RecordHeaders());

    private final StateManager manager;
    private ArrayNode logged = JsonNodeFactory.instance.arrayNode();

    static StoreContext of(
        final TaskId task, final StreamsConfig config, final StateManager manager, final long cacheBytes
    ) {
        final StreamsMetricsImpl metrics = new StreamsMetricsImpl(new Metrics(), "interop", Time.SYSTEM);
        return new StoreContext(
            task, config, metrics, new ThreadCache(new LogContext(), cacheBytes, metrics), manager);
    }

    private StoreContext(
        final TaskId task,
        final StreamsConfig config,
        final StreamsMetricsImpl metrics,
        final ThreadCache cache,
        final StateManager manager
    ) {
        super(task, config, metrics, cache);
        this.manager = manager;
        setRecordContext(NO_RECORD);
    }

    /** The input record {topic, partition, offset, timestamp, headers}; null: none. */
    void setRecord(final Request record) {
        setRecordContext(record == null ? NO_RECORD : new ProcessorRecordContext(
            record.number("timestamp"),
            record.number("offset"),
            record.number32("partition"),
            record.text("topic"),
            record.has("headers") ? record.headers("headers") : new RecordHeaders()));
        if (record != null) {
            record.refuseUnread();
        }
    }

    /** The changelog records since the last call. */
    ArrayNode takeLogged() {
        final ArrayNode taken = logged;
        logged = JsonNodeFactory.instance.arrayNode();
        return taken;
    }

    @Override
    protected StateManager stateManager() {
        return manager;
    }

    @Override
    public void logChange(
        final String store,
        final Bytes key,
        final byte[] value,
        final long timestamp,
        final Headers headers,
        final Position position
    ) {
        final ObjectNode record = logged.addObject();
        record.set("key", Values.hex(key.get()));
        record.set("value", Values.hex(value));
        record.put("timestamp", timestamp).set("headers", Values.pairs(headers));
    }

    @Override
    public void registerCacheFlushListener(
        final String namespace, final ThreadCache.DirtyEntryFlushListener listener
    ) {
        cache().addDirtyEntryFlushListener(namespace, listener);
    }

    @Override
    public long currentStreamTimeMs() {
        throw noTopology();
    }
}
