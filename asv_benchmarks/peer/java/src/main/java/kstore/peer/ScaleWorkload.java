package kstore.peer;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.internals.Internals;
import org.apache.kafka.streams.state.internals.RocksDBVersionedStore;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;

/** How cost grows: with the records of a key-value store, the versions of a key, and segments. */
final class ScaleWorkload {

    private static final int READS = 200_000;
    private static final long SEGMENT_MS = 60_000;
    private static final double MEBIBYTE = 1 << 20;

    private ScaleWorkload() {
    }

    static void records(final int count) throws Exception {
        final String bench = "records " + count;
        final byte[][] keys = Data.keys(0, count);
        final int[] order = Arrays.copyOf(Data.shuffled(count, 7), Math.min(count, READS));
        try (Opened<TimestampedKeyValueStoreWithHeaders<byte[], byte[]>> opened =
            KeyValueWorkload.open()) {
            KeyValueWorkload.put(bench, opened, keys);
            Report.value(bench, "commit", opened.commit() / 1e6);
            KeyValueWorkload.get(bench, opened.store, keys, order);
            KeyValueWorkload.scan(bench, opened.store, count);
            Report.value(bench, "memory", residentBytes() / MEBIBYTE);
            Report.value(bench, "open", opened.reopen() / 1e6);
            Report.value(bench, "disk", opened.bytes() / MEBIBYTE);
        }
    }

    /** Put {@code count} versions in all, in the order of time, and read as of random times. */
    static void versions(final int count, final int perKey, final int segments) throws Exception {
        final String bench = "versions " + perKey + " segments " + segments;
        final byte[][] keys = Data.keys(0, Math.max(count / perKey, 1));
        final long span = segments * SEGMENT_MS;
        try (Opened<RocksDBVersionedStore> opened =
            new Opened<>(() -> Internals.versionedStore("versions", 2 * span, SEGMENT_MS))) {
            for (int version = 0; version < perKey; version++) {
                for (int i = 0; i < keys.length; i++) {
                    final long timestamp =
                        span * version / perKey + span * i / perKey / keys.length;
                    opened.store.put(
                        Bytes.wrap(keys[i]), Data.value((long) version * keys.length + i), timestamp);
                }
            }
            opened.commit();
            final Random random = new Random(9);
            final long start = System.nanoTime();
            for (int i = 0; i < READS; i++) {
                VersionedWorkload.add(opened.store.get(
                    Bytes.wrap(keys[random.nextInt(keys.length)]),
                    (long) (random.nextDouble() * span)));
            }
            Report.value(bench, "as_of", (System.nanoTime() - start) / 1e3 / READS);
        }
    }

    private static long residentBytes() throws IOException {
        for (final String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
            }
        }
        throw new IOException("/proc/self/status has no line VmRSS");
    }
}
