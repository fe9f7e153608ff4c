package kstore.peer;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.internals.Internals;
import org.apache.kafka.streams.state.internals.RocksDBVersionedStore;

import java.io.IOException;
import java.util.Random;

/** A versioned store with ten versions of each key: put in order and late, latest, as of a time. */
final class VersionedWorkload {

    static final int VERSIONS = 10;
    static final long STEP_MS = 60_000;
    static final long START_MS = 1_000_000_000;
    private static final long RETENTION_MS = 3_600_000;
    private static final long SEGMENT_MS = 300_000;

    private VersionedWorkload() {
    }

    static Opened<RocksDBVersionedStore> open() throws IOException {
        return new Opened<>(() -> Internals.versionedStore("versioned", RETENTION_MS, SEGMENT_MS));
    }

    static void run(final int count) throws Exception {
        measure(count, false);
        measure(count, true);
    }

    private static void measure(final int count, final boolean someLate) throws Exception {
        final byte[][] keys = Data.keys(0, count / VERSIONS);
        final Random random = new Random(5);
        try (Opened<RocksDBVersionedStore> opened = open()) {
            put(opened.store, keys, random, someLate);
            opened.commit();
            if (!someLate) {
                latest(opened.store, keys, random, count);
                asOf(opened.store, keys, random, count);
            }
        }
    }

    private static void put(
        final RocksDBVersionedStore store, final byte[][] keys, final Random random, final boolean someLate
    ) {
        final long start = System.nanoTime();
        for (int version = 0; version < VERSIONS; version++) {
            for (int i = 0; i < keys.length; i++) {
                long timestamp = START_MS + version * STEP_MS + i * STEP_MS / keys.length;
                if (someLate && random.nextInt(10) == 0) {
                    timestamp -= 90_000 + random.nextInt(30_000);
                }
                store.put(
                    Bytes.wrap(keys[i]), Data.value((long) version * keys.length + i), timestamp);
            }
        }
        Report.operations(
            "versioned",
            someLate ? "put_10pct_out_of_order" : "put_in_order",
            (long) keys.length * VERSIONS,
            start);
    }

    private static void latest(
        final RocksDBVersionedStore store, final byte[][] keys, final Random random, final int count
    ) {
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            add(store.get(Bytes.wrap(keys[random.nextInt(keys.length)])));
        }
        Report.operations("versioned", "get_latest", count, start);
    }

    private static void asOf(
        final RocksDBVersionedStore store, final byte[][] keys, final Random random, final int count
    ) {
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final byte[] key = keys[random.nextInt(keys.length)];
            final long time =
                START_MS + STEP_MS + (long) (random.nextDouble() * (VERSIONS - 1) * STEP_MS);
            add(store.get(Bytes.wrap(key), time));
        }
        Report.operations("versioned", "get_as_of", count, start);
    }

    static void add(final VersionedRecord<byte[]> found) {
        if (found != null) {
            Report.sink += found.value().length;
        }
    }
}
