package kstore.peer;

import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.StoreBuilder;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** A store that is open in a temporary directory. The close deletes the directory. */
final class Opened<S extends StateStore> implements AutoCloseable {

    /** A pause after a commit, in which RocksDB flushes and compacts. */
    private static final long PAUSE_MS = 1500;

    private final Supplier<S> make;
    private final Path directory;
    S store;
    StoreContext context;

    Opened(final StoreBuilder<S> builder) throws IOException {
        this(() -> builder.withLoggingDisabled().withCachingDisabled().build());
    }

    Opened(final Supplier<S> make) throws IOException {
        this.make = make;
        directory = Files.createTempDirectory("kstore-peer-");
        open();
    }

    private void open() {
        context = new StoreContext(directory.toFile());
        store = make.get();
        store.init(context, store);
    }

    /** Commit, and wait until background work has probably ended. Return the commit's nanoseconds. */
    long commit() throws InterruptedException {
        final long start = System.nanoTime();
        store.commit(Map.of());
        final long took = System.nanoTime() - start;
        Thread.sleep(PAUSE_MS);
        return took;
    }

    /** Close the store and open it again. Return the nanoseconds of the open. */
    long reopen() {
        store.close();
        final long start = System.nanoTime();
        open();
        return System.nanoTime() - start;
    }

    /** The number of bytes in all files of the store. */
    long bytes() throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            return paths.map(Path::toFile).filter(File::isFile).mapToLong(File::length).sum();
        }
    }

    @Override
    public void close() throws IOException {
        store.close();
        try (Stream<Path> paths = Files.walk(directory)) {
            for (final Path path : (Iterable<Path>) paths.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
