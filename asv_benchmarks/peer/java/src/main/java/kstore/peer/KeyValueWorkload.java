package kstore.peer;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

import java.io.IOException;

/** A key-value store with timestamps and headers: put, get, scan. */
final class KeyValueWorkload {

    static final long START_MS = 1_700_000_000_000L;
    static final Serde<byte[]> BYTES = Serdes.ByteArray();

    private KeyValueWorkload() {
    }

    static Opened<TimestampedKeyValueStoreWithHeaders<byte[], byte[]>> open() throws IOException {
        return new Opened<>(Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders("kv"), BYTES, BYTES));
    }

    static void run(final int count) throws Exception {
        final String bench = "kv_headers_typed";
        final byte[][] keys = Data.keys(0, count);
        final int[] order = Data.shuffled(count, 7);
        try (Opened<TimestampedKeyValueStoreWithHeaders<byte[], byte[]>> opened = open()) {
            put(bench, opened, keys);
            opened.commit();
            get(bench, opened.store, keys, order);
            miss(bench, opened.store, Data.keys(Data.MISSING, count));
            scan(bench, opened.store, count);
        }
    }

    static void put(
        final String bench,
        final Opened<TimestampedKeyValueStoreWithHeaders<byte[], byte[]>> opened,
        final byte[][] keys
    ) {
        final long start = System.nanoTime();
        for (int i = 0; i < keys.length; i++) {
            opened.store.put(
                keys[i], ValueTimestampHeaders.make(Data.value(i), START_MS + i, Data.headers(i)));
        }
        Report.operations(bench, "put", keys.length, start);
    }

    static void get(
        final String bench,
        final TimestampedKeyValueStoreWithHeaders<byte[], byte[]> store,
        final byte[][] keys,
        final int[] order
    ) {
        final long start = System.nanoTime();
        for (final int i : order) {
            final ValueTimestampHeaders<byte[]> found = store.get(keys[i]);
            Report.sink += found.value().length + found.headers().lastHeader("span-id-00").value().length;
        }
        Report.operations(bench, "get_hit", order.length, start);
    }

    private static void miss(
        final String bench,
        final TimestampedKeyValueStoreWithHeaders<byte[], byte[]> store,
        final byte[][] missing
    ) {
        final long start = System.nanoTime();
        for (final byte[] key : missing) {
            if (store.get(key) != null) {
                throw new IllegalStateException("a key that was never put has a value");
            }
        }
        Report.operations(bench, "get_miss", missing.length, start);
    }

    static void scan(
        final String bench,
        final TimestampedKeyValueStoreWithHeaders<byte[], byte[]> store,
        final int count
    ) {
        final long start = System.nanoTime();
        int rows = 0;
        try (KeyValueIterator<byte[], ValueTimestampHeaders<byte[]>> all = store.all()) {
            while (all.hasNext()) {
                Report.sink += all.next().value.value().length;
                rows++;
            }
        }
        if (rows != count) {
            throw new IllegalStateException("the scan found " + rows + " rows, not " + count);
        }
        Report.operations(bench, "scan_all", rows, start);
    }
}
