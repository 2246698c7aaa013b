import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.AppInfoParser;

/** The line protocol for client programs in Java: a request in JSON a line, an answer a line. See serve.py. */
final class Serve {
    static final long PATIENCE_MS = 90_000;

    /** The calls of a program. */
    interface Calls {
        Object answer(String what, Map<String, Object> request) throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** A consumer of a group on a thread, which commits what it has seen. */
    abstract static class Member extends Thread {
        final List<String> seen = new CopyOnWriteArrayList<>();
        volatile boolean leaves;
        volatile Exception failed;

        abstract void consume() throws Exception;

        @Override
        public void run() {
            try {
                consume();
            } catch (Exception error) {
                failed = error;
            }
        }

        List<String> seenSoFar() throws Exception {
            if (failed != null) {
                throw failed;
            }
            return seen;
        }
    }

    private Serve() {}

    /** Answers requests until there are no more. What libraries print goes to standard error. */
    static void serve(Calls calls) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> request = (Map<String, Object>) new Json(line).value();
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("ok", calls.answer((String) request.get("do"), request));
            } catch (Throwable error) {
                answer.put("error", innermost(error).toString());
                answer.put("code", code(innermost(error)));
            }
            out.write((Json.text(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        }
        System.exit(0);
    }

    /** None before 0.9, which does not tell. */
    static Map<String, Object> version() {
        try {
            return pairs("version", AppInfoParser.getVersion());
        } catch (NoClassDefFoundError older) {
            return pairs("version", "");
        }
    }

    static Map<String, Object> pairs(Object... parts) {
        Map<String, Object> all = new LinkedHashMap<>();
        for (int i = 0; i < parts.length; i += 2) {
            all.put((String) parts[i], parts[i + 1]);
        }
        return all;
    }

    static long number(Map<String, Object> request, String name) {
        return request.containsKey(name) ? (Long) request.get(name) : 0;
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> maps(Object list) {
        return (List<Map<String, Object>>) list;
    }

    @SuppressWarnings("unchecked")
    static List<String> strings(Object list) {
        return (List<String>) list;
    }

    static byte[] bytes(Object text) {
        return text == null ? null : Base64.getDecoder().decode((String) text);
    }

    static String text(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    static String string(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within 90 s: " + what);
            }
            Thread.sleep(5);
        }
    }

    private static Throwable innermost(Throwable error) {
        return error.getCause() == null ? error : innermost(error.getCause());
    }

    /** Kafka's code; the consumer has an exception of its own for offsets out of range. */
    private static Object code(Throwable error) {
        if (error.getClass().getSimpleName().equals("OffsetOutOfRangeException")) {
            return 1;
        }
        int code = Errors.forException(error).code();
        return code == -1 ? null : code;
    }

    /** JSON with numbers that are whole. */
    static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object value() {
            char first = next();
            if (first == '{') {
                Map<String, Object> all = new LinkedHashMap<>();
                for (boolean more = !isNext('}'); more; more = follows('}')) {
                    next();
                    String name = string();
                    next();
                    all.put(name, value());
                }
                return all;
            } else if (first == '[') {
                List<Object> all = new ArrayList<>();
                for (boolean more = !isNext(']'); more; more = follows(']')) {
                    all.add(value());
                }
                return all;
            } else if (first == '"') {
                return string();
            }
            return word(first);
        }

        private Object word(char first) {
            int begin = at - 1;
            while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(begin, at);
            if (first == 'n') {
                return null;
            }
            return first == 't' || first == 'f' ? Boolean.valueOf(word) : (Object) Long.valueOf(word);
        }

        private char next() {
            while (text.charAt(at) == ' ') {
                at++;
            }
            return text.charAt(at++);
        }

        private boolean isNext(char end) {
            if (next() == end) {
                return true;
            }
            at--;
            return false;
        }

        private boolean follows(char end) {
            return next() != end;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
                if (c != '\\') {
                    out.append(c);
                    continue;
                }
                c = text.charAt(at++);
                if (c == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    int known = "nrtbf".indexOf(c);
                    out.append(known < 0 ? c : "\n\r\t\b\f".charAt(known));
                }
            }
            return out.toString();
        }

        static String text(Object value) {
            List<String> parts = new ArrayList<>();
            if (value instanceof Map) {
                for (Map.Entry<?, ?> one : ((Map<?, ?>) value).entrySet()) {
                    parts.add(text(one.getKey()) + ":" + text(one.getValue()));
                }
                return "{" + String.join(",", parts) + "}";
            } else if (value instanceof Iterable) {
                for (Object one : (Iterable<?>) value) {
                    parts.add(text(one));
                }
                return "[" + String.join(",", parts) + "]";
            } else if (value instanceof Object[]) {
                return text(Arrays.asList((Object[]) value));
            }
            return value instanceof String ? quoted((String) value) : String.valueOf(value);
        }

        private static String quoted(String value) {
            StringBuilder out = new StringBuilder("\"");
            for (char c : value.toCharArray()) {
                out.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            }
            return out.append('"').toString();
        }
    }
}
