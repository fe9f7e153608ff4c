package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

import java.util.function.Function;

/** The operations of one shape of store, by the names that the traces use. */
interface Operations {

    /** The result, or a {@link BadRequest} where this shape has no such operation. */
    JsonNode run(String operation, Request request);

    /** Every row as [key, value]; the iterator is closed whatever happens. */
    static <K, V> ArrayNode rows(
        final KeyValueIterator<K, V> iterator,
        final Function<K, JsonNode> key,
        final Function<V, JsonNode> value
    ) {
        final ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        try (iterator) {
            while (iterator.hasNext()) {
                final KeyValue<K, V> row = iterator.next();
                rows.addArray().add(key.apply(row.key)).add(value.apply(row.value));
            }
        }
        return rows;
    }

    static BadRequest unknown(final String operation) {
        return new BadRequest("this kind of store has no operation '" + operation + "'");
    }
}
