package kstore.peer;

import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.internals.Internals;

/** A key-value store in memory: put, get, scan. */
final class MemoryWorkload {

    private static final String BENCH = "inmemory_key_value";

    private MemoryWorkload() {
    }

    static void run(final int count) throws Exception {
        final byte[][] keys = Data.keys(0, count);
        final int[] order = Data.shuffled(count, 7);
        final byte[][] values = new byte[Data.POOL][];
        final Serializer<ValueTimestampHeaders<byte[]>> serializer = Internals.valueSerializer();
        for (int i = 0; i < Data.POOL; i++) {
            values[i] = serializer.serialize(
                "topic",
                ValueTimestampHeaders.make(
                    Data.value(i), KeyValueWorkload.START_MS + i, Data.headers(i)));
        }
        try (Opened<KeyValueStore<Bytes, byte[]>> opened =
            new Opened<>(() -> Stores.inMemoryKeyValueStore("memory").get())) {
            long start = System.nanoTime();
            for (int i = 0; i < count; i++) {
                opened.store.put(Bytes.wrap(keys[i]), values[i & (Data.POOL - 1)]);
            }
            Report.operations(BENCH, "put", count, start);

            start = System.nanoTime();
            for (final int i : order) {
                Report.sink += opened.store.get(Bytes.wrap(keys[i])).length;
            }
            Report.operations(BENCH, "get_hit", count, start);

            start = System.nanoTime();
            try (KeyValueIterator<Bytes, byte[]> all = opened.store.all()) {
                while (all.hasNext()) {
                    Report.sink += all.next().value.length;
                }
            }
            Report.operations(BENCH, "scan_all", count, start);
        }
    }
}
