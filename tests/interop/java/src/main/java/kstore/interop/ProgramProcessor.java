package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

import java.util.HashMap;
import java.util.Map;

/** A processor that runs the steps of a program. */
final class ProgramProcessor implements Processor<String, String, String, String> {

    private final JsonNode node;
    private final Map<String, JsonNode> kinds;
    private Steps steps;

    ProgramProcessor(final JsonNode node, final Map<String, JsonNode> kinds) {
        this.node = node;
        this.kinds = kinds;
    }

    @Override
    public void init(final ProcessorContext<String, String> context) {
        final Map<String, ProgramStore> stores = new HashMap<>();
        for (final JsonNode store : node.get("stores")) {
            final String name = store.textValue();
            stores.put(name, new ProgramStore(kinds.get(name), context.getStateStore(name)));
        }
        steps = new Steps(node.get("steps"), context, stores);
        new Steps(node.get("init"), context, stores)
            .run(new Record<>("i", "init", context.currentSystemTimeMs()));
    }

    @Override
    public void process(final Record<String, String> record) {
        steps.run(record);
    }
}
