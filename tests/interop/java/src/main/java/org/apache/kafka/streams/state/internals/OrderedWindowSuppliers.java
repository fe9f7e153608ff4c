package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** Time-ordered window stores of any segment interval: the constructor is not public. */
public final class OrderedWindowSuppliers {

    private OrderedWindowSuppliers() {
    }

    public static WindowBytesStoreSupplier supplier(
        final String name,
        final long retentionMs,
        final long segmentIntervalMs,
        final long windowSizeMs,
        final boolean retainDuplicates,
        final boolean withIndex,
        final boolean withHeaders
    ) {
        return new RocksDbIndexedTimeOrderedWindowBytesStoreSupplier(
            name, retentionMs, segmentIntervalMs, windowSizeMs, retainDuplicates, withIndex, withHeaders);
    }
}
