package kstore.interop;

import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.RocksDbSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbSessionHeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionHeadersBytesStoreSupplier;

import java.time.Duration;

/** Suppliers of session stores; a segment interval is set where it is asked for, else it is Kafka's. */
final class SessionSuppliers {

    private SessionSuppliers() {
    }

    static SessionBytesStoreSupplier of(final String kind, final String name, final Request request) {
        final long retention = request.number("retention_ms");
        final boolean index = kind.startsWith("session_ordered") && request.flag("index");
        if (!request.has("segment_interval_ms")) {
            return byFactory(kind, name, retention, index);
        }
        final long interval = request.number("segment_interval_ms");
        switch (kind) {
            case "session_plain":
                return new RocksDbSessionBytesStoreSupplier(name, retention) {
                    @Override
                    public long segmentIntervalMs() {
                        return interval;
                    }
                };
            case "session_headers":
                return new RocksDbSessionHeadersBytesStoreSupplier(name, retention) {
                    @Override
                    public long segmentIntervalMs() {
                        return interval;
                    }
                };
            case "session_ordered_plain":
                return new RocksDbTimeOrderedSessionBytesStoreSupplier(name, retention, index) {
                    @Override
                    public long segmentIntervalMs() {
                        return interval;
                    }
                };
            default:
                return new RocksDbTimeOrderedSessionHeadersBytesStoreSupplier(name, retention, index) {
                    @Override
                    public long segmentIntervalMs() {
                        return interval;
                    }
                };
        }
    }

    private static SessionBytesStoreSupplier byFactory(
        final String kind, final String name, final long retention, final boolean index
    ) {
        switch (kind) {
            case "session_plain":
                return Stores.persistentSessionStore(name, Duration.ofMillis(retention));
            case "session_headers":
                return Stores.persistentSessionStoreWithHeaders(name, Duration.ofMillis(retention));
            case "session_ordered_plain":
                return new RocksDbTimeOrderedSessionBytesStoreSupplier(name, retention, index);
            default:
                return new RocksDbTimeOrderedSessionHeadersBytesStoreSupplier(name, retention, index);
        }
    }
}
