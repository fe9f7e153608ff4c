package kstore.interop;

import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.OrderedWindowSuppliers;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier;
import org.apache.kafka.streams.state.internals.RocksDbWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbWindowBytesStoreSupplier.WindowStoreTypes;
import org.apache.kafka.streams.state.internals.RocksDbWindowHeadersBytesStoreSupplier;

import java.time.Duration;

/** Suppliers of window stores: the public factory, or, where a segment interval is asked for, its class. */
final class WindowSuppliers {

    private WindowSuppliers() {
    }

    static WindowBytesStoreSupplier of(final String kind, final String name, final Request request) {
        final Shape shape = new Shape(
            name, request.number("retention_ms"), request.number("window_size_ms"),
            request.flag("retain_duplicates"));
        if (kind.startsWith("window_ordered")) {
            final boolean index = request.flag("index");
            final boolean headers = kind.endsWith("_headers");
            return request.has("segment_interval_ms")
                ? OrderedWindowSuppliers.supplier(
                    name, shape.retentionMs, request.number("segment_interval_ms"), shape.sizeMs,
                    shape.duplicates, index, headers)
                : shape.ordered(index, headers);
        }
        return request.has("segment_interval_ms")
            ? shape.withInterval(kind, request.number("segment_interval_ms"))
            : shape.byFactory(kind);
    }

    private record Shape(String name, long retentionMs, long sizeMs, boolean duplicates) {

        private Duration retention() {
            return Duration.ofMillis(retentionMs);
        }

        private Duration size() {
            return Duration.ofMillis(sizeMs);
        }

        private WindowBytesStoreSupplier ordered(final boolean index, final boolean headers) {
            return headers
                ? RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier.create(
                    name, retention(), size(), duplicates, index)
                : RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create(
                    name, retention(), size(), duplicates, index);
        }

        private WindowBytesStoreSupplier byFactory(final String kind) {
            switch (kind) {
                case "window_plain":
                    return Stores.persistentWindowStore(name, retention(), size(), duplicates);
                case "window_timestamped":
                    return Stores.persistentTimestampedWindowStore(name, retention(), size(), duplicates);
                default:
                    return Stores.persistentTimestampedWindowStoreWithHeaders(
                        name, retention(), size(), duplicates);
            }
        }

        private WindowBytesStoreSupplier withInterval(final String kind, final long intervalMs) {
            switch (kind) {
                case "window_plain":
                    return new RocksDbWindowBytesStoreSupplier(
                        name, retentionMs, intervalMs, sizeMs, duplicates,
                        WindowStoreTypes.DEFAULT_WINDOW_STORE);
                case "window_timestamped":
                    return new RocksDbWindowBytesStoreSupplier(
                        name, retentionMs, intervalMs, sizeMs, duplicates,
                        WindowStoreTypes.TIMESTAMPED_WINDOW_STORE);
                default:
                    return new RocksDbWindowHeadersBytesStoreSupplier(
                        name, retentionMs, intervalMs, sizeMs, duplicates);
            }
        }
    }
}
