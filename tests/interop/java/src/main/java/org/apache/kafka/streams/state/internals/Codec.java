package org.apache.kafka.streams.state.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kstore.interop.BadRequest;
import kstore.interop.Request;
import kstore.interop.Values;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Optional;

/**
 * Bytes made by this release's own serializers, by the kinds that the golden vectors use. It lives in
 * this package because they are not public.
 */
public final class Codec {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private Codec() {
    }

    /** The fields that this release gives for the inputs of a vector. */
    public static JsonNode vector(final Request request) {
        final String kind = request.text("kind");
        switch (kind) {
            case "unsigned_varint":
            case "varint":
            case "varlong":
                return variable(kind, request.number("value"));
            case "headers":
                return bytes(HeadersSerializer.serialize(request.headers("headers")));
            case "value_timestamp_headers":
                return valueTimestampHeaders(request);
            case "aggregation_headers":
                return aggregation(request);
            case "value_and_timestamp":
                return bytes(new ValueAndTimestampSerializer<>(new ByteArraySerializer()).serialize(
                    "", ValueAndTimestamp.makeAllowNullable(request.bytes("value"), request.number("timestamp"))));
            case "convert_to_header_format":
                return bytes(HeadersBytesStore.convertToHeaderFormat(request.bytes("input")));
            case "convert_from_plain_to_header_format":
                return bytes(HeadersBytesStore.convertFromPlainToHeaderFormat(request.bytes("input")));
            case "versioned_latest_value":
                return bytes(RocksDBVersionedStore.LatestValueFormatter.from(
                    request.bytes("value"), request.number("timestamp")));
            case "restore_convert_kv_headers":
                return bytes(RecordConverters.rawValueToHeadersValue().convert(changelogRecord(
                    request.bytes("value"), request.number("timestamp"), request.headers("headers"))).value());
            case "restore_convert_session_headers":
                return bytes(RecordConverters.rawValueToSessionHeadersValue().convert(changelogRecord(
                    request.bytes("value"), 0L, request.headers("headers"))).value());
            case "position":
                return position(request.node("position"));
            case "murmur2":
                return murmur2(request.bytes("key"));
            case "key_schema_range":
                return KeyCodec.range(request);
            case "decode":
                return Decoding.of(request.text("target"), request.bytes("input"));
            default:
                return bytes(KeyCodec.key(kind, request));
        }
    }

    static ObjectNode bytes(final byte[] bytes) {
        final ObjectNode node = JSON.objectNode();
        node.set("bytes", Values.hex(bytes));
        return node;
    }

    private static JsonNode variable(final String kind, final long value) {
        final ByteBuffer buffer = ByteBuffer.allocate(10);
        final int size;
        switch (kind) {
            case "unsigned_varint":
                ByteUtils.writeUnsignedVarint(Math.toIntExact(value), buffer);
                size = ByteUtils.sizeOfUnsignedVarint(Math.toIntExact(value));
                break;
            case "varint":
                ByteUtils.writeVarint(Math.toIntExact(value), buffer);
                size = ByteUtils.sizeOfVarint(Math.toIntExact(value));
                break;
            default:
                ByteUtils.writeVarlong(value, buffer);
                size = ByteUtils.sizeOfVarlong(value);
        }
        return bytes(Arrays.copyOf(buffer.array(), buffer.position())).put("size", size);
    }

    private static JsonNode valueTimestampHeaders(final Request request) {
        final byte[] value = request.bytes("value");
        final long timestamp = request.number("timestamp");
        final byte[] bytes = new ValueTimestampHeadersSerializer<>(new ByteArraySerializer()).serialize(
            "", ValueTimestampHeaders.makeAllowNullable(value, timestamp, request.headers("headers")));
        final ObjectNode node = bytes(bytes);
        if (bytes != null) {
            node.set("raw_plain_value", Values.hex(Utils.rawPlainValue(bytes)));
            node.set("raw_timestamped_value", Values.hex(Utils.rawTimestampedValue(bytes)));
            node.put("has_empty_headers", Utils.hasEmptyHeaders(bytes));
            node.put("utils_timestamp", Utils.timestamp(bytes));
        }
        return node;
    }

    private static JsonNode aggregation(final Request request) {
        final byte[] bytes = new AggregationWithHeadersSerializer<>(new ByteArraySerializer()).serialize(
            "", AggregationWithHeaders.makeAllowNullable(request.bytes("value"), request.headers("headers")));
        final ObjectNode node = bytes(bytes);
        if (bytes != null) {
            node.set("raw_aggregation", Values.hex(Utils.rawAggregation(bytes)));
        }
        return node;
    }

    private static ConsumerRecord<byte[], byte[]> changelogRecord(
        final byte[] value, final long timestamp, final Headers headers
    ) {
        return new ConsumerRecord<>(
            "changelog", 0, 0L, timestamp, TimestampType.CREATE_TIME, 0, 0, null, value, headers, Optional.empty());
    }

    private static JsonNode position(final JsonNode topics) {
        final Position position = Position.emptyPosition();
        topics.properties().forEach(topic -> topic.getValue().properties().forEach(
            partition -> position.withComponent(
                topic.getKey(), Integer.parseInt(partition.getKey()), partition.getValue().longValue())));
        return bytes(PositionSerde.serialize(position).array());
    }

    private static JsonNode murmur2(final byte[] key) {
        if (key == null) {
            throw new BadRequest("a key that is hashed is not null");
        }
        final int hash = org.apache.kafka.common.utils.Utils.murmur2(key);
        return JSON.objectNode()
            .put("hash", hash)
            .put("positive", org.apache.kafka.common.utils.Utils.toPositive(hash));
    }
}
