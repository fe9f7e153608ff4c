package kstore.interop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.state.internals.Codec;

import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

import java.io.File;
import java.io.IOException;

/**
 * Requests one after another, at most one store open at a time.
 *
 * <p>A reply is {"result": …}; where Kafka threw, the result is {"exception": class, "message"} as in the
 * traces, and "cause" beside it tells what was below; {"error": …} is the harness's own complaint.
 */
final class Session {

    private static final ObjectMapper JSON = new ObjectMapper();

    private OpenStore store;

    String answer(final String line) {
        final ObjectNode reply = JsonNodeFactory.instance.objectNode();
        try {
            final Request request = new Request(JSON.readTree(line));
            final JsonNode result = run(request.text("op"), request);
            request.refuseUnread();
            reply.set("result", result);
        } catch (final BadRequest | JsonProcessingException complaint) {
            reply.put("error", complaint.getMessage());
        } catch (final Exception thrown) {
            reply.putObject("result")
                .put("exception", thrown.getClass().getName())
                .put("message", thrown.getMessage());
            if (thrown.getCause() != null) {
                reply.put("cause", thrown.getCause().toString());
            }
        } catch (final LinkageError missing) {
            // A native library that this machine cannot load.
            reply.put("error", missing.toString());
        }
        return reply.toString();
    }

    private JsonNode run(final String operation, final Request request) throws IOException, RocksDBException {
        switch (operation) {
            case "version":
                return version();
            case "codec":
                return Codec.vector(request);
            case "raw":
                return RawRows.of(new File(request.text("dir")), request.text("name"));
            case "describe_topology":
                return TopologyProgram.describe(request.node("program"));
            case "run_topology":
                return TopologyProgram.run(request.node("program"));
            case "open":
                if (store != null) {
                    throw new BadRequest("a store is open already: close it first");
                }
                store = OpenStore.of(request);
                return store.state();
            case "close":
                opened();
                close();
                return NullNode.instance;
            default:
                return opened().run(operation, request);
        }
    }

    private OpenStore opened() {
        if (store == null) {
            throw new BadRequest("no store is open");
        }
        return store;
    }

    void close() {
        if (store != null) {
            final OpenStore closing = store;
            store = null;
            closing.close();
        }
    }

    private static JsonNode version() {
        RocksDB.loadLibrary();
        return JsonNodeFactory.instance.objectNode()
            .put("kafka", AppInfoParser.getVersion())
            .put("rocksdb", RocksDB.rocksdbVersion().toString())
            .put("java", System.getProperty("java.version"));
    }
}
