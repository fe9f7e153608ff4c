package kstore.peer;

import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.WindowStoreIterator;

import java.time.Duration;
import java.util.Random;

/** A window store with timestamps and headers: put, one window, ten minutes of a key, scan. */
final class WindowWorkload {

    static final int KEYS = 10_000;
    static final long START_MS = 1_800_000_000;
    static final long SPAN_MS = 3_000_000;
    private static final long WINDOW_MS = 10_000;
    private static final long RANGE_MS = 300_000;
    private static final String BENCH = "window_headers";

    private WindowWorkload() {
    }

    static void run(final int count) throws Exception {
        final byte[][] keys = Data.keys(0, KEYS);
        final byte[][] key = new byte[count][];
        final long[] window = new long[count];
        final Random random = new Random(6);
        for (int i = 0; i < count; i++) {
            key[i] = keys[random.nextInt(KEYS)];
            final long timestamp = START_MS + i * SPAN_MS / count;
            window[i] = timestamp - timestamp % WINDOW_MS;
        }
        final int[] order = Data.shuffled(count, 8);
        try (Opened<TimestampedWindowStoreWithHeaders<byte[], byte[]>> opened =
            new Opened<>(Stores.timestampedWindowStoreWithHeadersBuilder(
                Stores.persistentTimestampedWindowStoreWithHeaders(
                    "window", Duration.ofHours(1), Duration.ofMillis(WINDOW_MS), false),
                KeyValueWorkload.BYTES,
                KeyValueWorkload.BYTES))) {
            put(opened.store, key, window);
            opened.commit();
            fetchOne(opened.store, key, window, order);
            fetchRange(opened.store, key, window, order);
            scan(opened.store);
        }
    }

    private static void put(
        final TimestampedWindowStoreWithHeaders<byte[], byte[]> store, final byte[][] key,
        final long[] window
    ) {
        final long start = System.nanoTime();
        for (int i = 0; i < key.length; i++) {
            store.put(
                key[i],
                ValueTimestampHeaders.make(Data.value(i), window[i], Data.headers(i)),
                window[i]);
        }
        Report.operations(BENCH, "put", key.length, start);
    }

    private static void fetchOne(
        final TimestampedWindowStoreWithHeaders<byte[], byte[]> store, final byte[][] key,
        final long[] window, final int[] order
    ) {
        final int count = order.length / 2;
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            Report.sink += store.fetch(key[order[i]], window[order[i]]).value().length;
        }
        Report.operations(BENCH, "fetch_one_hit", count, start);
    }

    private static void fetchRange(
        final TimestampedWindowStoreWithHeaders<byte[], byte[]> store, final byte[][] key,
        final long[] window, final int[] order
    ) {
        final int count = order.length / 10;
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final long middle = window[order[i]];
            try (WindowStoreIterator<ValueTimestampHeaders<byte[]>> found =
                store.fetch(key[order[i]], middle - RANGE_MS, middle + RANGE_MS)) {
                while (found.hasNext()) {
                    Report.sink += found.next().value.value().length;
                }
            }
        }
        Report.operations(BENCH, "fetch_key_10min_range", count, start);
    }

    private static void scan(final TimestampedWindowStoreWithHeaders<byte[], byte[]> store) {
        final long start = System.nanoTime();
        long rows = 0;
        try (KeyValueIterator<Windowed<byte[]>, ValueTimestampHeaders<byte[]>> all = store.all()) {
            while (all.hasNext()) {
                Report.sink += all.next().value.value().length;
                rows++;
            }
        }
        Report.operations(BENCH, "all", rows, start);
    }
}
