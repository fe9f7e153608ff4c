package kstore.peer;

/**
 * Runs one workload on Kafka Streams, and prints one JSON line per measurement.
 *
 * <p>Arguments: the name of the workload, the number of records, and the number of records that are
 * processed before the measurement so that the compiler has seen the code. The workload "versions"
 * has two more arguments: the versions of each key, and the number of segments.
 */
public final class Main {

    private Main() {
    }

    public static void main(final String[] arguments) throws Exception {
        final int warmUp = Integer.parseInt(arguments[2]);
        if (warmUp > 0) {
            run(arguments, warmUp);
        }
        Report.prints = true;
        run(arguments, Integer.parseInt(arguments[1]));
        System.err.println(Report.sink);
    }

    private static void run(final String[] arguments, final int count) throws Exception {
        switch (arguments[0]) {
            case "kv" -> KeyValueWorkload.run(count);
            case "versioned" -> VersionedWorkload.run(count);
            case "window" -> WindowWorkload.run(count);
            case "session" -> SessionWorkload.run(count);
            case "codec" -> CodecWorkload.run(Report.prints ? 5 * count : 3_000_000);
            case "inmem" -> MemoryWorkload.run(count);
            case "restore" -> RestoreWorkload.run(count);
            case "records" -> ScaleWorkload.records(count);
            case "versions" -> ScaleWorkload.versions(
                count, Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
            default -> throw new IllegalArgumentException("no workload has the name " + arguments[0]);
        }
    }
}
