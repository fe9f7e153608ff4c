package kstore.interop;

/** A request that the harness itself refuses: the reply is an error, not a result of Kafka's. */
public final class BadRequest extends RuntimeException {

    public BadRequest(final String message) {
        super(message);
    }
}
