package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The steps of an interpreted processor or of one of its schedules. */
final class Steps {

    private static final int LONGEST_VALUE = 60;

    private final List<JsonNode> steps = new ArrayList<>();
    private final ProcessorContext<String, String> context;
    private final Map<String, ProgramStore> stores;
    private final long[] counts;

    Steps(
        final JsonNode steps,
        final ProcessorContext<String, String> context,
        final Map<String, ProgramStore> stores
    ) {
        steps.forEach(this.steps::add);
        this.context = context;
        this.stores = stores;
        this.counts = new long[this.steps.size()];
    }

    void run(final Record<String, String> given) {
        final Cursor cursor = new Cursor(given);
        for (int at = 0; at < counts.length; at++) {
            final JsonNode step = steps.get(at);
            final long count = counts[at]++;
            if (step.has("every") && count % step.get("every").longValue() != 0) {
                continue;
            }
            if (step.has("once") && count != 0) {
                continue;
            }
            run(step, cursor);
        }
    }

    private void run(final JsonNode step, final Cursor cursor) {
        final Record<String, String> record = cursor.record;
        switch (step.get("op").textValue()) {
            case "set":
                if (step.has("key")) {
                    cursor.record = cursor.record.withKey(cursor.value(step.get("key")));
                }
                if (step.has("value")) {
                    cursor.record = cursor.record.withValue(cut(cursor.value(step.get("value"))));
                }
                if (step.has("time")) {
                    cursor.record = cursor.record.withTimestamp(cursor.time(step));
                }
                break;
            case "header_add":
                changed(step, cursor).add(
                    step.get("name").textValue(), bytes(TopologyProgram.text(step.get("value"))));
                break;
            case "header_remove":
                changed(step, cursor).remove(step.get("name").textValue());
                break;
            case "stamp":
                final String origin = context.recordMetadata()
                    .map(at -> at.topic() + "-" + at.partition() + "@" + at.offset())
                    .orElse("none");
                cursor.record = record.withValue(cut(
                    context.currentStreamTimeMs() + "/" + context.currentSystemTimeMs() + "/" + origin));
                break;
            case "forward":
                if (step.get("to").isNull()) {
                    context.forward(record);
                } else {
                    context.forward(record, step.get("to").textValue());
                }
                break;
            case "schedule":
                schedule(step);
                break;
            default:
                cursor.result = cut(stores.get(step.get("store").textValue()).run(step, cursor));
        }
    }

    private static Headers changed(final JsonNode step, final Cursor cursor) {
        if (!step.get("in_place").booleanValue()) {
            cursor.record = cursor.record.withHeaders(cursor.record.headers());
        }
        return cursor.record.headers();
    }

    private void schedule(final JsonNode step) {
        final Steps called = new Steps(step.get("steps"), context, stores);
        final Duration interval = Duration.ofMillis(step.get("interval").longValue());
        final PunctuationType type = step.get("time_kind").textValue().equals("stream_time")
            ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
        final Cancellable[] handle = new Cancellable[1];
        final long[] calls = new long[1];
        final org.apache.kafka.streams.processor.Punctuator callback = time -> {
            called.run(new Record<>("p", Long.toString(time), time));
            calls[0]++;
            if (step.has("calls") && calls[0] >= step.get("calls").longValue()) {
                handle[0].cancel();
            }
        };
        if (step.has("start")) {
            final Instant start = Instant.ofEpochMilli(step.get("start").longValue());
            handle[0] = context.schedule(start, interval, type, callback);
        } else {
            handle[0] = context.schedule(interval, type, callback);
        }
    }

    static String cut(final String value) {
        return value == null || value.length() <= LONGEST_VALUE ? value : value.substring(0, LONGEST_VALUE);
    }

    static byte[] bytes(final String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    /** Headers of pairs of texts. */
    static Headers headers(final JsonNode pairs) {
        final Headers headers = new RecordHeaders();
        pairs.forEach(pair -> headers.add(pair.get(0).textValue(), bytes(TopologyProgram.text(pair.get(1)))));
        return headers;
    }

    /** What the steps work on: a record, and the result of the last operation on a store. */
    static final class Cursor {

        private Record<String, String> record;
        private String result = "none";

        Cursor(final Record<String, String> record) {
            this.record = record;
        }

        Record<String, String> record() {
            return record;
        }

        /** A literal text, or what $k, $v and $r stand for. */
        String value(final JsonNode expression) {
            final String text = TopologyProgram.text(expression);
            if ("$k".equals(text)) {
                return record.key();
            }
            if ("$v".equals(text)) {
                return record.value();
            }
            return "$r".equals(text) ? result : text;
        }

        long time(final JsonNode step) {
            return Math.max(0, record.timestamp() + (step.has("time") ? step.get("time").longValue() : 0));
        }
    }
}
