package kstore.peer;

import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.Stores;

import java.time.Duration;
import java.util.Random;

/** A session store with headers: put, the sessions of two minutes, one session. */
final class SessionWorkload {

    private static final long SESSION_MS = 5_000;
    private static final long RANGE_MS = 60_000;
    private static final String BENCH = "session_headers";

    private SessionWorkload() {
    }

    static void run(final int count) throws Exception {
        final byte[][] keys = Data.keys(0, WindowWorkload.KEYS);
        final byte[][] key = new byte[count][];
        final long[] end = new long[count];
        final Random random = new Random(6);
        for (int i = 0; i < count; i++) {
            key[i] = keys[random.nextInt(keys.length)];
            end[i] = WindowWorkload.START_MS + i * WindowWorkload.SPAN_MS / count;
        }
        final int[] order = Data.shuffled(count, 8);
        try (Opened<SessionStoreWithHeaders<byte[], byte[]>> opened =
            new Opened<>(Stores.sessionStoreWithHeadersBuilder(
                Stores.persistentSessionStoreWithHeaders("session", Duration.ofHours(1)),
                KeyValueWorkload.BYTES,
                KeyValueWorkload.BYTES))) {
            put(opened.store, key, end);
            opened.commit();
            find(opened.store, key, end, order);
            fetch(opened.store, key, end, order);
        }
    }

    private static void put(
        final SessionStoreWithHeaders<byte[], byte[]> store, final byte[][] key, final long[] end
    ) {
        final long start = System.nanoTime();
        for (int i = 0; i < key.length; i++) {
            store.put(
                new Windowed<>(key[i], new SessionWindow(end[i] - SESSION_MS, end[i])),
                AggregationWithHeaders.make(Data.value(i), Data.headers(i)));
        }
        Report.operations(BENCH, "put", key.length, start);
    }

    private static void find(
        final SessionStoreWithHeaders<byte[], byte[]> store, final byte[][] key, final long[] end,
        final int[] order
    ) {
        final int count = order.length / 10;
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final long middle = end[order[i]];
            try (KeyValueIterator<Windowed<byte[]>, AggregationWithHeaders<byte[]>> found =
                store.findSessions(key[order[i]], middle - RANGE_MS, middle + RANGE_MS)) {
                while (found.hasNext()) {
                    Report.sink += found.next().value.aggregation().length;
                }
            }
        }
        Report.operations(BENCH, "find_sessions_2min", count, start);
    }

    private static void fetch(
        final SessionStoreWithHeaders<byte[], byte[]> store, final byte[][] key, final long[] end,
        final int[] order
    ) {
        final int count = order.length / 10;
        final long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final long last = end[order[i]];
            Report.sink +=
                store.fetchSession(key[order[i]], last - SESSION_MS, last).aggregation().length;
        }
        Report.operations(BENCH, "fetch_session_hit", count, start);
    }
}
