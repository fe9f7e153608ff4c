package kstore.peer;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.internals.RecordConverter;
import org.apache.kafka.streams.state.internals.RecordConverters;
import org.apache.kafka.streams.state.internals.RocksDBStore;
import org.apache.kafka.streams.state.internals.RocksDBTimestampedStoreWithHeaders;
import org.apache.kafka.streams.state.internals.RocksDBVersionedStore;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The restore of a log in batches of 1,000 records, which is what a consumer returns at most. */
final class RestoreWorkload {

    private static final int BATCH = 1000;

    private RestoreWorkload() {
    }

    /** Returns record number {@code index} of the log. */
    private interface Log {
        ConsumerRecord<byte[], byte[]> at(int index);
    }

    static void run(final int count) throws IOException {
        final byte[][] keys = Data.keys(0, count);
        final Log log = i ->
            record(i, KeyValueWorkload.START_MS + i, keys[i], Data.value(i), Data.headers(i));
        try (Opened<RocksDBStore> opened =
            new Opened<>(() -> new RocksDBTimestampedStoreWithHeaders("headers", "rocksdb"))) {
            restore("restore_headers", opened, RecordConverters.rawValueToHeadersValue(), count, log);
        }
        try (Opened<RocksDBStore> opened = new Opened<>(() -> new RocksDBStore("plain", "rocksdb"))) {
            restore("restore_plain", opened, RecordConverters.identity(), count, log);
        }
        final int distinct = count / VersionedWorkload.VERSIONS;
        final Log versions = i -> {
            final long timestamp = VersionedWorkload.START_MS
                + i / distinct * VersionedWorkload.STEP_MS
                + i % distinct * VersionedWorkload.STEP_MS / distinct;
            return record(i, timestamp, keys[i % distinct], Data.value(i), new RecordHeaders());
        };
        try (Opened<RocksDBVersionedStore> opened = VersionedWorkload.open()) {
            restore("restore_versioned", opened, RecordConverters.identity(), count, versions);
        }
    }

    private static ConsumerRecord<byte[], byte[]> record(
        final int offset, final long timestamp, final byte[] key, final byte[] value,
        final Headers headers
    ) {
        return new ConsumerRecord<>(
            "changelog", 0, offset, timestamp, TimestampType.CREATE_TIME, key.length, value.length,
            key, value, headers, Optional.empty());
    }

    private static <S extends StateStore> void restore(
        final String bench, final Opened<S> opened, final RecordConverter converter, final int count,
        final Log log
    ) {
        long took = 0;
        for (int first = 0; first < count; first += BATCH) {
            final List<ConsumerRecord<byte[], byte[]>> polled = new ArrayList<>(BATCH);
            for (int i = first; i < Math.min(count, first + BATCH); i++) {
                polled.add(log.at(i));
            }
            final long start = System.nanoTime();
            final List<ConsumerRecord<byte[], byte[]>> converted = new ArrayList<>(polled.size());
            for (final ConsumerRecord<byte[], byte[]> record : polled) {
                converted.add(converter.convert(record));
            }
            opened.context.restore(converted);
            took += System.nanoTime() - start;
        }
        Report.rate(bench, "restore_batches_of_1000", count, took);
    }
}
