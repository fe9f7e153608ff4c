package kstore.peer;

import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.internals.Internals;

import java.util.ArrayList;
import java.util.List;

/** The bytes of a value with its timestamp and three headers. */
final class CodecWorkload {

    private static final String BENCH = "codec";
    private static final String TOPIC = "topic";
    private static final int MASK = Data.POOL - 1;

    private CodecWorkload() {
    }

    static void run(final int count) {
        final Serializer<ValueTimestampHeaders<byte[]>> serializer = Internals.valueSerializer();
        final Deserializer<ValueTimestampHeaders<byte[]>> deserializer = Internals.valueDeserializer();
        final List<ValueTimestampHeaders<byte[]>> values = new ArrayList<>();
        final byte[][] encoded = new byte[Data.POOL][];
        final byte[][] headers = new byte[Data.POOL][];
        for (int i = 0; i < Data.POOL; i++) {
            values.add(ValueTimestampHeaders.make(Data.value(i), i, Data.headers(i)));
            encoded[i] = serializer.serialize(TOPIC, values.get(i));
            headers[i] = Internals.serialized(Data.headers(i));
        }

        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            Report.sink += serializer.serialize(TOPIC, values.get(i & MASK)).length;
        }
        Report.operations(BENCH, "value_timestamp_headers_serialize", count, start);

        start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final ValueTimestampHeaders<byte[]> found = deserializer.deserialize(TOPIC, encoded[i & MASK]);
            Report.sink += found.value().length + found.timestamp();
        }
        Report.operations(BENCH, "value_timestamp_headers_deserialize", count, start);

        start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final RecordHeaders found = (RecordHeaders) Internals.deserialized(headers[i & MASK]);
            Report.sink += found.toArray().length;
        }
        Report.operations(BENCH, "headers_deserialize", count, start);
    }
}
