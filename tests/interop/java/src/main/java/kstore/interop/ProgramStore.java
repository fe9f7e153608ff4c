package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * The operations of a program on a store of any shape, with results as text.
 *
 * <p>Times of a versioned store are doubled, so that a tombstone (at an odd time) never has the time of a
 * value: kstore deliberately differs there.
 */
@SuppressWarnings("unchecked")
final class ProgramStore {

    private static final long MANY = 1_000_000;

    private final JsonNode spec;
    private final String kind;
    private final Object store;

    ProgramStore(final JsonNode spec, final StateStore store) {
        this.spec = spec;
        this.kind = spec.get("kind").textValue();
        this.store = store;
    }

    String run(final JsonNode step, final Steps.Cursor cursor) {
        final byte[] key = step.has("key") ? Steps.bytes(cursor.value(step.get("key"))) : null;
        final String value = step.has("value") ? cursor.value(step.get("value")) : null;
        final long time = cursor.time(step);
        final Headers headers = step.path("headers").asText("record").equals("record")
            ? cursor.record().headers() : new RecordHeaders();
        final long reach = step.path("reach").asLong(0);
        final String operation = step.get("op").textValue();
        switch (kind.substring(0, kind.indexOf('_') < 0 ? kind.length() : kind.indexOf('_'))) {
            case "kv":
                return keyValue(operation, key, made(value, time, headers), time, headers, step);
            case "versioned":
                return versioned(operation, key, value, time);
            case "window":
                return window(operation, key, made(value, time, headers), time, reach);
            default:
                return session(operation, key, value, time, reach, headers);
        }
    }

    private String keyValue(
        final String operation, final byte[] key, final Object value, final long time,
        final Headers headers, final JsonNode step
    ) {
        final KeyValueStore<byte[], Object> rows = (KeyValueStore<byte[], Object>) store;
        switch (operation) {
            case "put":
                rows.put(key, value);
                return "put";
            case "put_if_absent":
                return shown(rows.putIfAbsent(key, value));
            case "delete":
                return shown(rows.delete(key));
            case "get":
                return shown(rows.get(key));
            case "count":
                final long count = number(plain(rows.get(key))) + 1;
                rows.put(key, made(Long.toString(count), time, headers));
                return Long.toString(count);
            case "scan":
                final byte[] from = Steps.bytes(TopologyProgram.text(step.get("from")));
                final byte[] to = Steps.bytes(TopologyProgram.text(step.get("to")));
                return all(step.path("reverse").asBoolean() ? rows.reverseRange(from, to) : rows.range(from, to));
            default:
                throw new BadRequest("unknown operation " + operation);
        }
    }

    private String versioned(final String operation, final byte[] key, final String value, final long time) {
        final VersionedKeyValueStore<byte[], byte[]> rows = (VersionedKeyValueStore<byte[], byte[]>) store;
        switch (operation) {
            case "put":
                return Long.toString(rows.put(key, Steps.bytes(value), 2 * time + (value == null ? 1 : 0)));
            case "delete":
                return shown(rows.delete(key, 2 * time + 1));
            case "get":
                return shown(rows.get(key));
            case "as_of":
                return shown(rows.get(key, 2 * time));
            default:
                throw new BadRequest("unknown operation " + operation);
        }
    }

    private String window(
        final String operation, final byte[] key, final Object value, final long time, final long reach
    ) {
        final WindowStore<byte[], Object> rows = (WindowStore<byte[], Object>) store;
        final long start = time - time % spec.get("window_size_ms").longValue();
        final Instant from = Instant.ofEpochMilli(Math.max(0, time - reach));
        final Instant to = Instant.ofEpochMilli(time + reach);
        switch (operation) {
            case "put":
                rows.put(key, value, start);
                return "put";
            case "get":
                return shown(rows.fetch(key, start));
            case "scan":
                return all(rows.fetch(key, from, to));
            case "scan_all":
                return all(rows.fetchAll(from, to));
            default:
                throw new BadRequest("unknown operation " + operation);
        }
    }

    private String session(
        final String operation, final byte[] key, final String value, final long time,
        final long reach, final Headers headers
    ) {
        final SessionStore<byte[], Object> rows = (SessionStore<byte[], Object>) store;
        switch (operation) {
            case "put":
                rows.put(windowed(key, time, time + reach), made(value, time, headers));
                return "put";
            case "delete":
                rows.remove(windowed(key, time, time + reach));
                return "removed";
            case "get":
                return shown(rows.fetchSession(key, time, time + reach));
            case "scan":
                return all(rows.findSessions(key, Math.max(0, time - reach), time + reach));
            case "merge":
                long start = time;
                long end = time;
                long count = 1;
                final List<Windowed<byte[]>> merged = new ArrayList<>();
                try (KeyValueIterator<Windowed<byte[]>, Object> found =
                         rows.findSessions(key, Math.max(0, time - reach), time + reach)) {
                    while (found.hasNext()) {
                        final KeyValue<Windowed<byte[]>, Object> row = found.next();
                        merged.add(row.key);
                        start = Math.min(start, row.key.window().start());
                        end = Math.max(end, row.key.window().end());
                        count += number(plain(row.value));
                    }
                }
                merged.forEach(rows::remove);
                rows.put(windowed(key, start, end), made(Long.toString(count), time, headers));
                return start + ".." + end + "=" + count;
            default:
                throw new BadRequest("unknown operation " + operation);
        }
    }

    /** The contents at the end of a program, as far as a store of this shape can be read. */
    ArrayNode dump(final JsonNode program) {
        final ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        if (kind.startsWith("kv")) {
            rows.add(all(((KeyValueStore<byte[], Object>) store).all()));
            return rows;
        }
        if (kind.startsWith("window")) {
            rows.add(all(((WindowStore<byte[], Object>) store).all()));
            return rows;
        }
        for (final JsonNode node : program.get("keys")) {
            final byte[] key = Steps.bytes(node.textValue());
            if (kind.startsWith("session")) {
                rows.add(all(((SessionStore<byte[], Object>) store).findSessions(key, 0, MANY)));
                continue;
            }
            rows.add(shown(((VersionedKeyValueStore<byte[], byte[]>) store).get(key)));
            for (final JsonNode time : program.get("times")) {
                rows.add(shown(
                    ((VersionedKeyValueStore<byte[], byte[]>) store).get(key, 2 * time.longValue())));
            }
        }
        return rows;
    }

    private Object made(final String text, final long time, final Headers headers) {
        final byte[] value = Steps.bytes(text);
        if (kind.equals("session_headers")) {
            return AggregationWithHeaders.make(value, headers);
        }
        if (kind.endsWith("_timestamped")) {
            return ValueAndTimestamp.make(value, time);
        }
        return kind.endsWith("_headers") ? ValueTimestampHeaders.make(value, time, headers) : value;
    }

    private static Windowed<byte[]> windowed(final byte[] key, final long start, final long end) {
        return new Windowed<>(key, new SessionWindow(start, end));
    }

    private static <K> String all(final KeyValueIterator<K, ?> iterator) {
        final List<String> rows = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                final KeyValue<K, ?> row = iterator.next();
                rows.add(key(row.key) + ":" + shown(row.value));
            }
        }
        return String.join("|", rows);
    }

    private static String key(final Object key) {
        if (key instanceof Windowed<?> windowed) {
            return key(windowed.key()) + "<" + windowed.window().start() + "," + windowed.window().end();
        }
        return key instanceof byte[] bytes ? text(bytes) : key.toString();
    }

    private static String shown(final Object value) {
        if (value == null) {
            return "-";
        }
        if (value instanceof ValueAndTimestamp<?> record) {
            return text(record.value()) + "@" + record.timestamp();
        }
        if (value instanceof ValueTimestampHeaders<?> record) {
            return text(record.value()) + "@" + record.timestamp() + pairs(record.headers());
        }
        if (value instanceof AggregationWithHeaders<?> record) {
            return text(record.aggregation()) + pairs(record.headers());
        }
        if (value instanceof VersionedRecord<?> record) {
            return text(record.value()) + "@" + record.timestamp();
        }
        return text(value);
    }

    private static String plain(final Object value) {
        return value == null ? "" : shown(value).split("[@\\[]")[0];
    }

    private static long number(final String text) {
        return text.matches("[0-9]{1,9}") ? Long.parseLong(text) : 0;
    }

    private static String text(final Object value) {
        return value == null ? "~" : new String((byte[]) value, StandardCharsets.UTF_8);
    }

    private static String pairs(final Headers headers) {
        final List<String> pairs = new ArrayList<>();
        for (final Header header : headers) {
            pairs.add(header.key() + "=" + text(header.value()));
        }
        return "[" + String.join(";", pairs) + "]";
    }
}
