package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

import java.time.Instant;

/** put, delete, get, get_as_of and query_versions (order asc, desc or any) of a versioned store. */
record VersionedOperations(VersionedKeyValueStore<byte[], byte[]> store) implements Operations {

    @Override
    public JsonNode run(final String operation, final Request request) {
        switch (operation) {
            case "put":
                return JsonNodeFactory.instance.numberNode(
                    store.put(request.bytes("key"), request.bytes("value"), request.number("timestamp")));
            case "delete":
                return record(store.delete(request.bytes("key"), request.number("timestamp")));
            case "get":
                return record(store.get(request.bytes("key")));
            case "get_as_of":
                return record(store.get(request.bytes("key"), request.number("as_of")));
            case "query_versions":
                return versions(request);
            default:
                throw Operations.unknown(operation);
        }
    }

    private JsonNode versions(final Request request) {
        MultiVersionedKeyQuery<byte[], byte[]> query =
            MultiVersionedKeyQuery.withKey(request.bytes("key"));
        query = query.fromTime(instant(request, "from")).toTime(instant(request, "to"));
        final String order = request.text("order");
        switch (order) {
            case "asc":
                query = query.withAscendingTimestamps();
                break;
            case "desc":
                query = query.withDescendingTimestamps();
                break;
            case "any":
                break;
            default:
                throw new BadRequest("order is asc, desc or any, not " + order);
        }
        final QueryResult<VersionedRecordIterator<byte[]>> result =
            store.query(query, PositionBound.unbounded(), new QueryConfig(false));
        if (result.isFailure()) {
            throw new IllegalStateException(result.getFailureReason() + ": " + result.getFailureMessage());
        }
        final ArrayNode versions = JsonNodeFactory.instance.arrayNode();
        try (VersionedRecordIterator<byte[]> iterator = result.getResult()) {
            while (iterator.hasNext()) {
                versions.add(record(iterator.next()));
            }
        }
        return versions;
    }

    /** Null leaves that end open. */
    private static Instant instant(final Request request, final String field) {
        return request.node(field).isNull() ? null : Instant.ofEpochMilli(request.number(field));
    }

    private static JsonNode record(final VersionedRecord<byte[]> record) {
        if (record == null) {
            return NullNode.instance;
        }
        final ObjectNode node = JsonNodeFactory.instance.objectNode();
        node.set("value", Values.hex(record.value()));
        return node.put("timestamp", record.timestamp()).put("valid_to", record.validTo().orElse(null));
    }
}
