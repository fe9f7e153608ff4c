package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.kstream.Windowed;

import java.util.HexFormat;

/** How bytes, headers and windows are written as JSON: hex, [[key, hex or null], …], {key, start, end}. */
public final class Values {

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private Values() {
    }

    public static byte[] bytes(final JsonNode hex) {
        if (hex.isNull()) {
            return null;
        }
        if (!hex.isTextual()) {
            throw new BadRequest("bytes are a string of hex, not " + hex);
        }
        return HexFormat.of().parseHex(hex.textValue());
    }

    public static JsonNode hex(final byte[] bytes) {
        return bytes == null ? NullNode.instance : JSON.textNode(HexFormat.of().formatHex(bytes));
    }

    public static Headers headers(final JsonNode pairs) {
        final Headers headers = new RecordHeaders();
        for (final JsonNode pair : pairs) {
            headers.add(pair.get(0).textValue(), bytes(pair.get(1)));
        }
        return headers;
    }

    public static ArrayNode pairs(final Headers headers) {
        final ArrayNode pairs = JSON.arrayNode();
        for (final Header header : headers) {
            pairs.addArray().add(header.key()).add(hex(header.value()));
        }
        return pairs;
    }

    static ObjectNode window(final Windowed<byte[]> windowed) {
        final ObjectNode node = JSON.objectNode();
        node.set("key", hex(windowed.key()));
        return node.put("start", windowed.window().start()).put("end", windowed.window().end());
    }
}
