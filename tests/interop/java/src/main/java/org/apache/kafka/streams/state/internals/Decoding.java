package org.apache.kafka.streams.state.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kstore.interop.BadRequest;
import kstore.interop.Values;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

import java.nio.ByteBuffer;

/** What this release's deserializers make of any bytes, well-formed or not. */
final class Decoding {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private Decoding() {
    }

    static JsonNode of(final String target, final byte[] input) {
        switch (target) {
            case "varint":
                final ByteBuffer varint = ByteBuffer.wrap(input);
                final long value = ByteUtils.readVarint(varint);
                return JSON.objectNode().put("value", value).put("consumed", varint.position());
            case "varlong":
                final ByteBuffer varlong = ByteBuffer.wrap(input);
                final long longValue = ByteUtils.readVarlong(varlong);
                return JSON.objectNode().put("value", longValue).put("consumed", varlong.position());
            case "headers":
                return JSON.objectNode().set("headers", Values.pairs(HeadersDeserializer.deserialize(input)));
            case "value_timestamp_headers":
                final ValueTimestampHeaders<byte[]> record =
                    new ValueTimestampHeadersDeserializer<>(new ByteArrayDeserializer()).deserialize("", input);
                if (record == null) {
                    return NullNode.instance;
                }
                final ObjectNode node = JSON.objectNode();
                node.set("headers", Values.pairs(record.headers()));
                return node.put("timestamp", record.timestamp()).set("value", Values.hex(record.value()));
            case "aggregation_headers":
                final AggregationWithHeaders<byte[]> session =
                    new AggregationWithHeadersDeserializer<>(new ByteArrayDeserializer()).deserialize("", input);
                if (session == null) {
                    return NullNode.instance;
                }
                final ObjectNode aggregation = JSON.objectNode();
                aggregation.set("headers", Values.pairs(session.headers()));
                return aggregation.set("value", Values.hex(session.aggregation()));
            case "utils_raw_plain_value":
                return Values.hex(Utils.rawPlainValue(input));
            case "utils_raw_timestamped_value":
                return Values.hex(Utils.rawTimestampedValue(input));
            case "utils_raw_aggregation":
                return Values.hex(Utils.rawAggregation(input));
            case "utils_timestamp":
                return JSON.numberNode(Utils.timestamp(input));
            default:
                throw new BadRequest("there is nothing to decode called '" + target + "'");
        }
    }
}
