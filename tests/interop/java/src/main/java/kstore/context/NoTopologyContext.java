package kstore.context;

import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.To;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.AbstractProcessorContext;
import org.apache.kafka.streams.processor.internals.RecordCollector;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.state.internals.ThreadCache;

import java.time.Duration;
import java.time.Instant;

/**
 * The context of a store that no topology contains. It refuses to forward, to schedule and to commit.
 * The harness of the tests and the workloads of the comparison compile this file.
 */
public abstract class NoTopologyContext extends AbstractProcessorContext<Object, Object> {

    protected NoTopologyContext(
        final TaskId task,
        final StreamsConfig config,
        final StreamsMetricsImpl metrics,
        final ThreadCache cache
    ) {
        super(task, config, metrics, cache);
    }

    protected static UnsupportedOperationException noTopology() {
        return new UnsupportedOperationException("the store has no topology");
    }

    @Override
    public void transitionToActive(
        final StreamTask task, final RecordCollector collector, final ThreadCache newCache
    ) {
        throw noTopology();
    }

    @Override
    public void transitionToStandby(final ThreadCache newCache) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final Record<K, V> record) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final Record<K, V> record, final String child) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final FixedKeyRecord<K, V> record) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final FixedKeyRecord<K, V> record, final String child) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final K key, final V value) {
        throw noTopology();
    }

    @Override
    public <K, V> void forward(final K key, final V value, final To to) {
        throw noTopology();
    }

    @Override
    public <S extends StateStore> S getStateStore(final String name) {
        throw noTopology();
    }

    @Override
    public Cancellable schedule(
        final Duration interval, final PunctuationType type, final Punctuator callback
    ) {
        throw noTopology();
    }

    @Override
    public Cancellable schedule(
        final Instant start, final Duration interval, final PunctuationType type, final Punctuator callback
    ) {
        throw noTopology();
    }

    @Override
    public void commit() {
        throw noTopology();
    }
}
