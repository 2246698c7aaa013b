import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

/**
 * Says of each batch, hexadecimal in a line of standard input, what Apache Kafka's broker makes of it when a producer
 * sends it and what its consumer reads of it: `BROKER CONSUMER`, with a tab between.
 *
 * Each is `N records CRC` (of all keys and values) or the name of the exception, that of its cause behind a `/`.
 */
public final class PayloadReader {
    private static final String[] PACKAGES = {"org.apache.kafka.common.record.", "org.apache.kafka.common.record.internal."};
    private static final String LOG = "org.apache.kafka.storage.internals.log.";

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] batch = bytes(line);
            out.append(told(batch, true)).append('\t').append(told(batch, false)).append('\n');
        }
        System.out.print(out);
    }

    private static String told(byte[] batch, boolean validates) throws Exception {
        try {
            Object records = readable(ByteBuffer.wrap(batch.clone()));
            if (validates) {
                records = validated(records);
            }
            return read(records);
        } catch (InvocationTargetException wrapped) {
            Throwable error = wrapped.getCause();
            String name = error.getClass().getSimpleName();
            Throwable cause = error.getCause();
            return cause == null ? name : name + "/" + cause.getClass().getSimpleName();
        }
    }

    private static Object readable(ByteBuffer buffer) throws Exception {
        return type("MemoryRecords").getMethod("readableRecords", ByteBuffer.class).invoke(null, buffer);
    }

    private static Object validated(Object records) throws Exception {
        Object first = ((Iterable<?>) call(records, "batches")).iterator().next();
        Object compression = call(first, "compressionType");
        Object builder = Class.forName("org.apache.kafka.common.compress.Compression")
                .getMethod("of", type("CompressionType")).invoke(null, compression);
        Constructor<?> constructor = Class.forName(LOG + "LogValidator").getConstructors()[0];
        List<Object> given = new ArrayList<Object>();
        given.add(records);
        given.add(new TopicPartition("topic", 0));
        given.add(Time.SYSTEM);
        given.add(compression);
        given.add(call(builder, "build"));
        given.add(false);
        given.add((byte) 2);
        given.add(TimestampType.CREATE_TIME);
        given.add(Long.MAX_VALUE);
        given.add(Long.MAX_VALUE);
        given.add(0);
        given.add(enumValue(constructor.getParameterTypes()[11], "CLIENT"));
        if (constructor.getParameterCount() > 12) {
            given.add(constructor.getParameterTypes()[12].getMethod("latestTesting").invoke(null));
        }
        Object validator = constructor.newInstance(given.toArray());
        Class<?> metrics = Class.forName(LOG + "LogValidator$MetricsRecorder");
        Class<?> counter = Class.forName("org.apache.kafka.common.utils.PrimitiveRef$LongRef");
        Method validate = validator.getClass().getMethod("validateMessagesAndAssignOffsets", counter, metrics, buffers());
        Object recorder = Proxy.newProxyInstance(metrics.getClassLoader(), new Class<?>[] {metrics}, (self, method, with) -> null);
        Object zero = Class.forName("org.apache.kafka.common.utils.PrimitiveRef").getMethod("ofLong", long.class).invoke(null, 0L);
        Object result = validate.invoke(validator, zero, recorder, buffers().getMethod("create").invoke(null));
        return member(result, "validatedRecords");
    }

    private static String read(Object records) throws Exception {
        CRC32 crc = new CRC32();
        int count = 0;
        for (Object batch : (Iterable<?>) call(records, "batches")) {
            call(batch, "ensureValid");
            Method streaming = type("RecordBatch").getMethod("streamingIterator", buffers());
            Iterator<?> each = (Iterator<?>) streaming.invoke(batch, buffers().getMethod("create").invoke(null));
            while ((Boolean) called(Iterator.class, each, "hasNext")) {
                Object record = called(Iterator.class, each, "next");
                count++;
                add(crc, (ByteBuffer) called(type("Record"), record, "key"));
                add(crc, (ByteBuffer) called(type("Record"), record, "value"));
            }
            called(AutoCloseable.class, each, "close");
        }
        return count + " records " + Long.toHexString(crc.getValue());
    }

    private static void add(CRC32 crc, ByteBuffer field) {
        if (field != null) {
            crc.update(field);
        }
    }

    private static Object call(Object on, String method) throws Exception {
        for (Method each : on.getClass().getMethods()) {
            if (each.getName().equals(method) && each.getParameterCount() == 0) {
                each.setAccessible(true);
                return each.invoke(on);
            }
        }
        throw new NoSuchMethodException(method);
    }

    /** A public field in 3.9.2, an accessor in 4.3.1. */
    private static Object member(Object of, String name) throws Exception {
        try {
            return of.getClass().getField(name).get(of);
        } catch (NoSuchFieldException accessor) {
            return call(of, name);
        }
    }

    private static Object called(Class<?> as, Object on, String method) throws Exception {
        return as.getMethod(method).invoke(on);
    }

    private static Object enumValue(Class<?> type, String name) throws Exception {
        return type.getMethod("valueOf", String.class).invoke(null, name);
    }

    private static Class<?> buffers() throws Exception {
        return Class.forName("org.apache.kafka.common.utils.BufferSupplier");
    }

    private static Class<?> type(String name) throws Exception {
        for (String where : PACKAGES) {
            try {
                return Class.forName(where + name);
            } catch (ClassNotFoundException elsewhere) {
                // in the other package
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static byte[] bytes(String hexadecimal) {
        byte[] found = new byte[hexadecimal.length() / 2];
        for (int at = 0; at < found.length; at++) {
            found[at] = (byte) Integer.parseInt(hexadecimal.substring(2 * at, 2 * at + 2), 16);
        }
        return found;
    }
}
