package org.apache.kafka.streams.processor.internals;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;

/**
 * One store in one task directory, opened, committed and closed by Kafka Streams' own state manager,
 * in the very calls that a stream task makes: it lives in this package because they are not public.
 */
public final class TaskState {

    private static final Logger LOG = LoggerFactory.getLogger(TaskState.class);

    private final StateDirectory directory;
    private final ProcessorStateManager manager;
    private final boolean exactlyOnce;
    private final TopicPartition changelog;

    /**
     * @param taskDirectory the task directory itself, by any name
     * @param changelog     what offsets are committed under; null: the store has no changelog
     */
    public TaskState(
        final StreamsConfig config,
        final TaskId task,
        final File taskDirectory,
        final String store,
        final TopicPartition changelog,
        final boolean exactlyOnce
    ) {
        this.exactlyOnce = exactlyOnce;
        this.changelog = changelog;
        // A StateDirectory without persistent stores makes no directories and takes no lock: the only
        // directory is the one that was asked for.
        directory = new StateDirectory(config, Time.SYSTEM, false, false) {
            @Override
            public File getOrCreateDirectoryForTask(final TaskId id) {
                return taskDirectory;
            }
        };
        manager = new ProcessorStateManager(
            task, Task.TaskType.ACTIVE, exactlyOnce, new LogContext(), directory,
            changelog == null ? Map.of() : Map.of(store, changelog.topic()), Set.of());
    }

    public StateManager manager() {
        return manager;
    }

    /** Open the store, take over a legacy checkpoint file, and find the offset to restore from. */
    public void open(final StateStore store, final InternalProcessorContext<?, ?> context) {
        final ProcessorTopology topology = new ProcessorTopology(
            List.of(), Map.of(), Map.of(), List.of(store), List.of(), Map.of(), Set.of(), Map.of());
        StateManagerUtil.registerStateStores(LOG, "", topology, manager, directory, context);
    }

    /** Restore records of the changelog, as the store changelog reader does. */
    public void restore(final List<ConsumerRecord<byte[], byte[]>> records) {
        manager.restore(manager.storeMetadata(changelog), records, OptionalLong.empty());
    }

    /** Send what a cache holds to the store below it. */
    public void flushCache() {
        manager.flushCache();
    }

    /** Commit the store with the offset of the last changelog record, or with the one known before (null). */
    public void commit(final Long offset) {
        manager.flushCache();
        if (offset != null) {
            manager.updateChangelogOffsets(Map.of(changelog, offset));
        }
        manager.commit();
    }

    public void close() {
        StateManagerUtil.closeStateManager(
            LOG, "", true, exactlyOnce, manager, directory, Task.TaskType.ACTIVE);
    }
}
