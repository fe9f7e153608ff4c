package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;

import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

import java.time.Instant;

/** put, fetch_one and every fetch of a window store; times are window starts, inclusive. */
record WindowOperations<V>(WindowStore<byte[], V> store, ValueForm<V> form) implements Operations {

    @Override
    public JsonNode run(final String operation, final Request request) {
        switch (operation) {
            case "put":
                store.put(
                    request.bytes("key"), form.read(request.node("value")), request.number("window_start"));
                return NullNode.instance;
            case "fetch_one":
                return form.write(store.fetch(request.bytes("key"), request.number("time")));
            case "fetch":
                return starts(store.fetch(request.bytes("key"), from(request), to(request)));
            case "backward_fetch":
                return starts(store.backwardFetch(request.bytes("key"), from(request), to(request)));
            case "fetch_range":
                return rows(store.fetch(
                    request.bytes("key_from"), request.bytes("key_to"), from(request), to(request)));
            case "backward_fetch_range":
                return rows(store.backwardFetch(
                    request.bytes("key_from"), request.bytes("key_to"), from(request), to(request)));
            case "fetch_all":
                return rows(store.fetchAll(from(request), to(request)));
            case "backward_fetch_all":
                return rows(store.backwardFetchAll(from(request), to(request)));
            case "all":
                return rows(store.all());
            case "backward_all":
                return rows(store.backwardAll());
            default:
                throw Operations.unknown(operation);
        }
    }

    private static Instant from(final Request request) {
        return Instant.ofEpochMilli(request.number("from"));
    }

    private static Instant to(final Request request) {
        return Instant.ofEpochMilli(request.number("to"));
    }

    private JsonNode starts(final WindowStoreIterator<V> iterator) {
        return Operations.rows(iterator, JsonNodeFactory.instance::numberNode, form::write);
    }

    private JsonNode rows(final KeyValueIterator<Windowed<byte[]>, V> iterator) {
        return Operations.rows(iterator, Values::window, form::write);
    }
}
