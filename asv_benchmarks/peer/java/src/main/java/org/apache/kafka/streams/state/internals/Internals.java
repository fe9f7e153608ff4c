package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/** Access to classes of Kafka Streams that only their own package can use. */
public final class Internals {

    private Internals() {
    }

    public static RocksDBVersionedStore versionedStore(
        final String name, final long historyRetentionMs, final long segmentIntervalMs
    ) {
        return new RocksDBVersionedStore(name, "rocksdb", historyRetentionMs, segmentIntervalMs);
    }

    public static Serializer<ValueTimestampHeaders<byte[]>> valueSerializer() {
        return new ValueTimestampHeadersSerializer<>(new ByteArraySerializer());
    }

    public static Deserializer<ValueTimestampHeaders<byte[]>> valueDeserializer() {
        return new ValueTimestampHeadersDeserializer<>(new ByteArrayDeserializer());
    }

    public static byte[] serialized(final Headers headers) {
        return HeadersSerializer.serialize(headers);
    }

    public static Headers deserialized(final byte[] headers) {
        return HeadersDeserializer.deserialize(headers);
    }
}
