package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

import java.util.function.Function;

/** What a store's values are, as JSON and as the class that its typed interface takes. */
record ValueForm<V>(Function<JsonNode, V> reader, Function<V, JsonNode> writer) {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    static final ValueForm<byte[]> PLAIN = new ValueForm<>(Values::bytes, Values::hex);

    static final ValueForm<ValueAndTimestamp<byte[]>> TIMESTAMPED = new ValueForm<>(
        node -> ValueAndTimestamp.make(value(node), node.get("timestamp").longValue()),
        record -> object(record.value()).put("timestamp", record.timestamp()));

    static final ValueForm<ValueTimestampHeaders<byte[]>> TIMESTAMPED_HEADERS = new ValueForm<>(
        node -> ValueTimestampHeaders.make(
            value(node), node.get("timestamp").longValue(), Values.headers(node.get("headers"))),
        record -> object(record.value())
            .put("timestamp", record.timestamp())
            .set("headers", Values.pairs(record.headers())));

    static final ValueForm<AggregationWithHeaders<byte[]>> AGGREGATION_HEADERS = new ValueForm<>(
        node -> AggregationWithHeaders.make(value(node), Values.headers(node.get("headers"))),
        record -> object(record.aggregation()).set("headers", Values.pairs(record.headers())));

    V read(final JsonNode node) {
        return node.isNull() ? null : reader.apply(node);
    }

    JsonNode write(final V value) {
        return value == null ? NullNode.instance : writer.apply(value);
    }

    private static byte[] value(final JsonNode node) {
        return Values.bytes(node.get("value"));
    }

    private static ObjectNode object(final byte[] value) {
        final ObjectNode node = JSON.objectNode();
        node.set("value", Values.hex(value));
        return node;
    }
}
