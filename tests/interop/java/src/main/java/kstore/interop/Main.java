package kstore.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Kafka Streams' own state stores behind a pipe: one JSON request a line on standard input, one JSON
 * reply a line on standard output, until the input ends.
 */
public final class Main {

    private Main() {
    }

    public static void main(final String[] arguments) throws IOException {
        final PrintStream replies =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        // Whatever a library prints must not come between the replies.
        System.setOut(System.err);
        final BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final Session session = new Session();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            replies.println(session.answer(line));
            replies.flush();
        }
        session.close();
    }
}
