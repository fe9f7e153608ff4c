package kstore.peer;

import java.util.Locale;

/** Prints one JSON line per measurement. */
final class Report {

    /** False while the code is warmed up. */
    static boolean prints;
    /** A sum of results, so that the compiler cannot remove a read. */
    static long sink;

    private Report() {
    }

    /** Report {@code count} operations that took the time since {@code start}. */
    static void operations(final String bench, final String op, final long count, final long start) {
        rate(bench, op, count, System.nanoTime() - start);
    }

    /** Report {@code count} operations that took {@code nanoseconds}. */
    static void rate(final String bench, final String op, final long count, final long nanoseconds) {
        value(bench, op, count * 1e9 / nanoseconds);
    }

    /** Report a number in the unit of the operation. */
    static void value(final String bench, final String op, final double value) {
        if (prints) {
            System.out.printf(
                Locale.ROOT, "{\"bench\": \"%s\", \"op\": \"%s\", \"value\": %.6f}%n", bench, op, value);
        }
    }
}
