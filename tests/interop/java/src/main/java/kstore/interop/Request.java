package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.header.Headers;

import java.util.HashSet;
import java.util.Set;

/** One request. It remembers which fields were read, so that a misspelt one is an error and not ignored. */
public final class Request {

    private final JsonNode node;
    private final Set<String> read = new HashSet<>();

    Request(final JsonNode node) {
        if (!node.isObject()) {
            throw new BadRequest("a request is a JSON object, not " + node.getNodeType());
        }
        this.node = node;
    }

    public boolean has(final String field) {
        return node.has(field);
    }

    /** The field, which must be there; it may be null. */
    public JsonNode node(final String field) {
        if (!node.has(field)) {
            throw new BadRequest("field '" + field + "' is missing in " + node);
        }
        read.add(field);
        return node.get(field);
    }

    public String text(final String field) {
        final JsonNode value = node(field);
        if (!value.isTextual()) {
            throw new BadRequest("field '" + field + "' is a string, not " + value);
        }
        return value.textValue();
    }

    String text(final String field, final String otherwise) {
        return has(field) ? text(field) : otherwise;
    }

    public long number(final String field) {
        final JsonNode value = node(field);
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            throw new BadRequest("field '" + field + "' is an integer of 64 bits, not " + value);
        }
        return value.longValue();
    }

    long number(final String field, final long otherwise) {
        return has(field) ? number(field) : otherwise;
    }

    public int number32(final String field) {
        return Math.toIntExact(number(field));
    }

    boolean flag(final String field) {
        if (!has(field)) {
            return false;
        }
        final JsonNode value = node(field);
        if (!value.isBoolean()) {
            throw new BadRequest("field '" + field + "' is true or false, not " + value);
        }
        return value.booleanValue();
    }

    /** Bytes from hex; null is null. */
    public byte[] bytes(final String field) {
        return Values.bytes(node(field));
    }

    public Headers headers(final String field) {
        return Values.headers(node(field));
    }

    /** A part that is itself a request, or null where it is not given. Its fields are checked too. */
    Request part(final String field) {
        return has(field) ? new Request(node(field)) : null;
    }

    void refuseUnread() {
        for (final String name : (Iterable<String>) node::fieldNames) {
            if (!read.contains(name)) {
                throw new BadRequest("field '" + name + "' means nothing to this operation: " + node);
            }
        }
    }
}
