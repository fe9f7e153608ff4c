package org.apache.kafka.streams.state.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kstore.interop.BadRequest;
import kstore.interop.Request;
import kstore.interop.Values;

import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

import java.util.function.Supplier;

/** Composite keys of window and session stores, and the bounds that their scans use. */
final class KeyCodec {

    private KeyCodec() {
    }

    static byte[] key(final String kind, final Request request) {
        final Bytes key = Bytes.wrap(request.bytes("key"));
        switch (kind) {
            case "window_key":
                return WindowKeySchema.toStoreKeyBinary(
                    key, request.number("timestamp"), request.number32("seqnum")).get();
            case "window_key_changelog":
                final long start = request.number("start");
                return WindowKeySchema.toBinary(
                    new Windowed<>(key.get(), new TimeWindow(start, start + 1)),
                    new ByteArraySerializer(), new RecordHeaders(), "");
            case "prefixed_window_key_time_first":
                return PrefixedWindowKeySchemas.TimeFirstWindowKeySchema.toStoreKeyBinary(
                    key, request.number("timestamp"), request.number32("seqnum")).get();
            case "prefixed_window_key_key_first":
                return PrefixedWindowKeySchemas.KeyFirstWindowKeySchema.toStoreKeyBinary(
                    key, request.number("timestamp"), request.number32("seqnum")).get();
            case "session_key":
                return SessionKeySchema.toBinary(key, request.number("start"), request.number("end")).get();
            case "prefixed_session_key_time_first":
                return PrefixedSessionKeySchemas.TimeFirstSessionKeySchema.toBinary(
                    key, request.number("start"), request.number("end")).get();
            case "prefixed_session_key_key_first":
                return PrefixedSessionKeySchemas.KeyFirstSessionKeySchema.toBinary(
                    key, request.number("start"), request.number("end")).get();
            default:
                throw new BadRequest("there is no vector of kind '" + kind + "'");
        }
    }

    static JsonNode range(final Request request) {
        final SegmentedBytesStore.KeySchema schema = schema(request.text("schema"));
        final byte[] raw = request.bytes("key");
        final Bytes key = raw == null ? null : Bytes.wrap(raw);
        final long time = request.number("time");
        final ObjectNode bounds = JsonNodeFactory.instance.objectNode();
        bounds.set("lower_range", bound(() -> schema.lowerRange(key, time)));
        bounds.set("upper_range", bound(() -> schema.upperRange(key, time)));
        if (key != null) {
            bounds.set("lower_range_fixed_size", bound(() -> schema.lowerRangeFixedSize(key, time)));
            bounds.set("upper_range_fixed_size", bound(() -> schema.upperRangeFixedSize(key, time)));
        }
        return bounds;
    }

    private static SegmentedBytesStore.KeySchema schema(final String name) {
        switch (name) {
            case "window":
                return new WindowKeySchema();
            case "window_time_first":
                return new PrefixedWindowKeySchemas.TimeFirstWindowKeySchema();
            case "window_key_first":
                return new PrefixedWindowKeySchemas.KeyFirstWindowKeySchema();
            case "session":
                return new SessionKeySchema();
            case "session_time_first":
                return new PrefixedSessionKeySchemas.TimeFirstSessionKeySchema();
            case "session_key_first":
                return new PrefixedSessionKeySchemas.KeyFirstSessionKeySchema();
            default:
                throw new BadRequest("there is no key schema '" + name + "'");
        }
    }

    private static JsonNode bound(final Supplier<Bytes> bound) {
        try {
            final Bytes bytes = bound.get();
            return Values.hex(bytes == null ? null : bytes.get());
        } catch (final RuntimeException thrown) {
            return JsonNodeFactory.instance.objectNode()
                .put("exception", thrown.getClass().getName())
                .put("message", thrown.getMessage());
        }
    }
}
