package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.NullNode;

import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;

/** put, remove, fetch_session and every find and fetch of a session store. */
record SessionOperations<V>(SessionStore<byte[], V> store, ValueForm<V> form) implements Operations {

    @Override
    public JsonNode run(final String operation, final Request request) {
        switch (operation) {
            case "put":
                store.put(session(request), form.read(request.node("value")));
                return NullNode.instance;
            case "remove":
                store.remove(session(request));
                return NullNode.instance;
            case "fetch_session":
                return form.write(store.fetchSession(
                    request.bytes("key"), request.number("start"), request.number("end")));
            case "find_sessions":
                return rows(store.findSessions(
                    request.bytes("key"), earliest(request), request.number("latest_start")));
            case "backward_find_sessions":
                return rows(store.backwardFindSessions(
                    request.bytes("key"), earliest(request), request.number("latest_start")));
            case "find_sessions_range":
                return rows(store.findSessions(
                    request.bytes("key_from"), request.bytes("key_to"),
                    earliest(request), request.number("latest_start")));
            case "backward_find_sessions_range":
                return rows(store.backwardFindSessions(
                    request.bytes("key_from"), request.bytes("key_to"),
                    earliest(request), request.number("latest_start")));
            case "find_sessions_between":
                return rows(store.findSessions(earliest(request), request.number("latest_end")));
            case "fetch":
                return rows(store.fetch(request.bytes("key")));
            case "backward_fetch":
                return rows(store.backwardFetch(request.bytes("key")));
            case "fetch_range":
                return rows(store.fetch(request.bytes("key_from"), request.bytes("key_to")));
            case "backward_fetch_range":
                return rows(store.backwardFetch(request.bytes("key_from"), request.bytes("key_to")));
            default:
                throw Operations.unknown(operation);
        }
    }

    private static Windowed<byte[]> session(final Request request) {
        return new Windowed<>(
            request.bytes("key"), new SessionWindow(request.number("start"), request.number("end")));
    }

    private static long earliest(final Request request) {
        return request.number("earliest_end");
    }

    private JsonNode rows(final KeyValueIterator<Windowed<byte[]>, V> iterator) {
        return Operations.rows(iterator, Values::window, form::write);
    }
}
