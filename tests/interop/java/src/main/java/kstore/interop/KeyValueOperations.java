package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;

import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

import java.util.ArrayList;
import java.util.List;

/** put, put_if_absent, put_all, delete, get, ranges and scans of a key-value store. */
record KeyValueOperations<V>(KeyValueStore<byte[], V> store, ValueForm<V> form) implements Operations {

    @Override
    public JsonNode run(final String operation, final Request request) {
        switch (operation) {
            case "put":
                store.put(request.bytes("key"), form.read(request.node("value")));
                return NullNode.instance;
            case "put_if_absent":
                return form.write(store.putIfAbsent(request.bytes("key"), form.read(request.node("value"))));
            case "put_all":
                final List<KeyValue<byte[], V>> entries = new ArrayList<>();
                for (final JsonNode entry : request.node("entries")) {
                    entries.add(KeyValue.pair(Values.bytes(entry.get(0)), form.read(entry.get(1))));
                }
                store.putAll(entries);
                return NullNode.instance;
            case "delete":
                return form.write(store.delete(request.bytes("key")));
            case "get":
                return form.write(store.get(request.bytes("key")));
            case "range":
                return rows(store.range(request.bytes("from"), request.bytes("to")));
            case "reverse_range":
                return rows(store.reverseRange(request.bytes("from"), request.bytes("to")));
            case "all":
                return rows(store.all());
            case "reverse_all":
                return rows(store.reverseAll());
            case "prefix_scan":
                return rows(store.prefixScan(request.bytes("prefix"), new ByteArraySerializer()));
            case "approximate_num_entries":
                return JsonNodeFactory.instance.numberNode(store.approximateNumEntries());
            default:
                throw Operations.unknown(operation);
        }
    }

    private JsonNode rows(final KeyValueIterator<byte[], V> iterator) {
        return Operations.rows(iterator, Values::hex, form::write);
    }
}
