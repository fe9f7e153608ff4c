package kstore.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Every row of every column family of every database of a store that is closed, read below Kafka. */
final class RawRows {

    private RawRows() {
    }

    static JsonNode of(final File task, final String store) throws RocksDBException {
        final ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        for (final String database : databases(task, store)) {
            read(task, database, rows);
        }
        return rows;
    }

    /** {@code rocksdb/<store>}, or one a segment, {@code <store>/<store>.<ms>}, in the order of names. */
    private static List<String> databases(final File task, final String store) {
        final List<String> databases = new ArrayList<>();
        if (new File(task, "rocksdb/" + store).isDirectory()) {
            databases.add("rocksdb/" + store);
        }
        final String[] segments = new File(task, store).list();
        if (segments != null) {
            Arrays.sort(segments);
            for (final String segment : segments) {
                databases.add(store + "/" + segment);
            }
        }
        if (databases.isEmpty() && segments == null) {
            throw new BadRequest("no database of a store '" + store + "' in " + task);
        }
        return databases;
    }

    private static void read(final File task, final String database, final ArrayNode rows)
        throws RocksDBException {
        final String path = new File(task, database).getPath();
        final List<ColumnFamilyDescriptor> families = new ArrayList<>();
        try (Options options = new Options()) {
            for (final byte[] family : RocksDB.listColumnFamilies(options, path)) {
                families.add(new ColumnFamilyDescriptor(family));
            }
        }
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (DBOptions options = new DBOptions();
             RocksDB db = RocksDB.openReadOnly(options, path, families, handles)) {
            for (final ColumnFamilyHandle handle : handles) {
                final String family = new String(handle.getName(), StandardCharsets.UTF_8);
                try (RocksIterator iterator = db.newIterator(handle)) {
                    for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                        final ObjectNode row = rows.addObject();
                        row.put("line", "raw").put("db", database).put("cf", family);
                        row.set("key", Values.hex(iterator.key()));
                        row.set("value", Values.hex(iterator.value()));
                    }
                    iterator.status();
                }
            }
            handles.forEach(ColumnFamilyHandle::close);
        }
    }
}
