package kstore.peer;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

import java.util.Random;

/** The keys, values, headers and orders of all workloads. The other side makes the same ones. */
final class Data {

    /** The number of different values and headers, a power of two. */
    static final int POOL = 4096;
    /** The first index of keys that no store has. */
    static final long MISSING = 1L << 40;

    private static final int VALUE_BYTES = 100;
    private static final int HEADER_BYTES = 20;
    private static final byte[][] VALUES = new byte[POOL][];
    private static final Headers[] HEADERS = new Headers[POOL];

    static {
        final Random random = new Random(99);
        for (int i = 0; i < POOL; i++) {
            VALUES[i] = bytes(random, VALUE_BYTES);
            HEADERS[i] = new RecordHeaders();
            for (final String key : new String[] {"trace-id-0", "span-id-00", "tenant-id0"}) {
                HEADERS[i].add(key, bytes(random, HEADER_BYTES));
            }
        }
    }

    private Data() {
    }

    /** The value of record number {@code index}. */
    static byte[] value(final long index) {
        return VALUES[(int) (index & (POOL - 1))];
    }

    /** The headers of record number {@code index}. */
    static Headers headers(final long index) {
        return HEADERS[(int) (index & (POOL - 1))];
    }

    /** Keys of 16 bytes. The order of their indexes is a random order of the keys. */
    static byte[][] keys(final long first, final int count) {
        final byte[][] keys = new byte[count][];
        for (int i = 0; i < count; i++) {
            keys[i] = new byte[16];
            writeLong(keys[i], 0, mixed(2 * (first + i)));
            writeLong(keys[i], 8, mixed(2 * (first + i) + 1));
        }
        return keys;
    }

    /** The numbers below {@code count} in a random order. */
    static int[] shuffled(final int count, final long seed) {
        final int[] numbers = new int[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = i;
        }
        final Random random = new Random(seed);
        for (int i = count - 1; i > 0; i--) {
            final int other = random.nextInt(i + 1);
            final int number = numbers[i];
            numbers[i] = numbers[other];
            numbers[other] = number;
        }
        return numbers;
    }

    /** The random function splitmix64. */
    private static long mixed(final long seed) {
        long z = seed + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    private static void writeLong(final byte[] target, final int offset, final long value) {
        for (int i = 0; i < 8; i++) {
            target[offset + i] = (byte) (value >>> (56 - 8 * i));
        }
    }

    private static byte[] bytes(final Random random, final int size) {
        final byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }
}
