package kstore.interop;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

import java.time.Duration;
import java.util.function.Function;

/** A kind of store: how Kafka Streams builds it, and which operations its typed face has. */
record StoreKind(StoreBuilder<?> builder, Function<StateStore, Operations> operations) {

    private static final Serde<byte[]> BYTES = Serdes.ByteArray();

    /** The kind that an open request names; every store has byte-array serdes. */
    static StoreKind of(final Request request) {
        final String kind = request.text("kind");
        final String name = request.text("name");
        switch (kind) {
            case "kv_plain":
                return new StoreKind(
                    Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), BYTES, BYTES),
                    StoreKind::plainKeyValue);
            case "kv_timestamped":
                return new StoreKind(
                    Stores.timestampedKeyValueStoreBuilder(
                        Stores.persistentTimestampedKeyValueStore(name), BYTES, BYTES),
                    StoreKind::timestampedKeyValue);
            case "kv_headers":
                return new StoreKind(
                    Stores.timestampedKeyValueStoreWithHeadersBuilder(
                        Stores.persistentTimestampedKeyValueStoreWithHeaders(name), BYTES, BYTES),
                    StoreKind::headersKeyValue);
            case "versioned":
                return new StoreKind(
                    Stores.versionedKeyValueStoreBuilder(versioned(name, request), BYTES, BYTES),
                    StoreKind::versioned);
            case "window_plain":
            case "window_ordered_plain":
                return new StoreKind(
                    Stores.windowStoreBuilder(WindowSuppliers.of(kind, name, request), BYTES, BYTES),
                    StoreKind::plainWindow);
            case "window_timestamped":
            case "window_ordered_timestamped":
                return new StoreKind(
                    Stores.timestampedWindowStoreBuilder(
                        WindowSuppliers.of(kind, name, request), BYTES, BYTES),
                    StoreKind::timestampedWindow);
            case "window_headers":
            case "window_ordered_headers":
                return new StoreKind(
                    Stores.timestampedWindowStoreWithHeadersBuilder(
                        WindowSuppliers.of(kind, name, request), BYTES, BYTES),
                    StoreKind::headersWindow);
            case "session_plain":
            case "session_ordered_plain":
                return new StoreKind(
                    Stores.sessionStoreBuilder(SessionSuppliers.of(kind, name, request), BYTES, BYTES),
                    StoreKind::plainSession);
            case "session_headers":
            case "session_ordered_headers":
                return new StoreKind(
                    Stores.sessionStoreWithHeadersBuilder(
                        SessionSuppliers.of(kind, name, request), BYTES, BYTES),
                    StoreKind::headersSession);
            default:
                throw new BadRequest("there is no kind of store '" + kind + "'");
        }
    }

    private static VersionedBytesStoreSupplier versioned(final String name, final Request request) {
        final Duration retention = Duration.ofMillis(request.number("history_retention_ms"));
        return request.has("segment_interval_ms")
            ? Stores.persistentVersionedKeyValueStore(
                name, retention, Duration.ofMillis(request.number("segment_interval_ms")))
            : Stores.persistentVersionedKeyValueStore(name, retention);
    }

    @SuppressWarnings("unchecked")
    private static Operations plainKeyValue(final StateStore store) {
        return new KeyValueOperations<>((KeyValueStore<byte[], byte[]>) store, ValueForm.PLAIN);
    }

    @SuppressWarnings("unchecked")
    private static Operations timestampedKeyValue(final StateStore store) {
        return new KeyValueOperations<>(
            (TimestampedKeyValueStore<byte[], byte[]>) store, ValueForm.TIMESTAMPED);
    }

    @SuppressWarnings("unchecked")
    private static Operations headersKeyValue(final StateStore store) {
        return new KeyValueOperations<>(
            (TimestampedKeyValueStoreWithHeaders<byte[], byte[]>) store, ValueForm.TIMESTAMPED_HEADERS);
    }

    @SuppressWarnings("unchecked")
    private static Operations versioned(final StateStore store) {
        return new VersionedOperations((VersionedKeyValueStore<byte[], byte[]>) store);
    }

    @SuppressWarnings("unchecked")
    private static Operations plainWindow(final StateStore store) {
        return new WindowOperations<>((WindowStore<byte[], byte[]>) store, ValueForm.PLAIN);
    }

    @SuppressWarnings("unchecked")
    private static Operations timestampedWindow(final StateStore store) {
        return new WindowOperations<>(
            (TimestampedWindowStore<byte[], byte[]>) store, ValueForm.TIMESTAMPED);
    }

    @SuppressWarnings("unchecked")
    private static Operations headersWindow(final StateStore store) {
        return new WindowOperations<>(
            (TimestampedWindowStoreWithHeaders<byte[], byte[]>) store, ValueForm.TIMESTAMPED_HEADERS);
    }

    @SuppressWarnings("unchecked")
    private static Operations plainSession(final StateStore store) {
        return new SessionOperations<>((SessionStore<byte[], byte[]>) store, ValueForm.PLAIN);
    }

    @SuppressWarnings("unchecked")
    private static Operations headersSession(final StateStore store) {
        return new SessionOperations<>(
            (SessionStoreWithHeaders<byte[], byte[]>) store, ValueForm.AGGREGATION_HEADERS);
    }
}
