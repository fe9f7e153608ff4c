package kstore.peer;

import kstore.context.NoTopologyContext;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.StateManager;
import org.apache.kafka.streams.processor.internals.StateRestoreCallbackAdapter;
import org.apache.kafka.streams.processor.internals.Task;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.ThreadCache;

import java.io.File;
import java.util.Collection;
import java.util.Map;

/** The context of a store without a topology, a changelog or a cache. */
final class StoreContext extends NoTopologyContext {

    private final File directory;
    private StateRestoreCallback callback;

    StoreContext(final File directory) {
        super(
            new TaskId(0, 0),
            config(),
            new StreamsMetricsImpl(new Metrics(), "peer", Time.SYSTEM),
            null);
        this.directory = directory;
        setCurrentNode(new ProcessorNode<>("peer"));
        // A store does not advance its position if the record has no topic.
        setRecordContext(new ProcessorRecordContext(0L, 0L, 0, "topic", new RecordHeaders()));
    }

    private static StreamsConfig config() {
        return new StreamsConfig(Map.of(
            StreamsConfig.APPLICATION_ID_CONFIG, "peer",
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092",
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class.getName(),
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class.getName()));
    }

    /** Restore one batch of records, as a task does. */
    void restore(final Collection<ConsumerRecord<byte[], byte[]>> records) {
        StateRestoreCallbackAdapter.adapt(callback).restoreBatch(records);
    }

    @Override
    public File stateDir() {
        return directory;
    }

    @Override
    public void register(
        final StateStore store, final StateRestoreCallback restore, final CommitCallback commit
    ) {
        callback = restore;
    }

    @Override
    public long currentSystemTimeMs() {
        return System.currentTimeMillis();
    }

    @Override
    public long currentStreamTimeMs() {
        return 0;
    }

    @Override
    protected StateManager stateManager() {
        return new Manager();
    }

    @Override
    public void logChange(
        final String store, final Bytes key, final byte[] value, final long timestamp,
        final Headers headers, final Position position
    ) {
        throw noTopology();
    }

    @Override
    public void registerCacheFlushListener(
        final String namespace, final ThreadCache.DirtyEntryFlushListener listener
    ) {
        throw noTopology();
    }

    /** Tells a store its directory, and the name of a changelog that does not exist. */
    private final class Manager implements StateManager {

        @Override
        public File baseDir() {
            return directory;
        }

        @Override
        public void registerStore(
            final StateStore store, final StateRestoreCallback restore, final CommitCallback commit
        ) {
        }

        @Override
        public StateStore store(final String name) {
            return null;
        }

        @Override
        public void commit() {
        }

        @Override
        public void updateChangelogOffsets(final Map<TopicPartition, Long> offsets) {
        }

        @Override
        public Map<TopicPartition, Long> changelogOffsets() {
            return Map.of();
        }

        @Override
        public void close() {
        }

        @Override
        public Task.TaskType taskType() {
            return Task.TaskType.ACTIVE;
        }

        @Override
        public String changelogFor(final String store) {
            return "peer-" + store + "-changelog";
        }

        @Override
        public StateStore globalStore(final String name) {
            return null;
        }
    }
}
