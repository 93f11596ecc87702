/** How long clients of ours wait where Java's own would not, on a machine that does much at once. */
final class Patience {
    /** For an answer of a name server or of a broker: 3 s may be gone before a client is warm. */
    static final int API_MS = 15_000;

    private Patience() {
    }
}
