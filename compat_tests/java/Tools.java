import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command-line tools one after the other in one process: Java and Kafka's classes start once.
 * Each finds its own classes as they were before any ran, standard streams of its own, and ends as a process would:
 * the status that it leaves with, and what it wants done at the end.
 *
 * Standard input: for each tool its main class, the number of arguments, the arguments (all strings as writeUTF has
 * them), the length of its input and that. Standard output: status, length and bytes of what it printed, the same of
 * its errors.
 */
public final class Tools {
    private static final String[] OWN = {"org.apache.kafka.tools.", "kafka.tools.", "kafka.admin."};

    /** Ends a tool. No Exception, as some tools catch those. */
    private static final class Left extends Error {
        Left() {
            super("the tool has left", null, false, false);
        }
    }

    /** The classes of the tools themselves, with their static fields; all others are shared. */
    private static final class OwnClasses extends URLClassLoader {
        OwnClasses(URL[] jars) {
            super(jars, Tools.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            for (String prefix : OWN) {
                if (name.startsWith(prefix)) {
                    synchronized (getClassLoadingLock(name)) {
                        Class<?> known = findLoadedClass(name);
                        return known != null ? known : findClass(name);
                    }
                }
            }
            return super.loadClass(name, resolve);
        }
    }

    /** A standard stream that stays: libraries keep the one that they find first. What it leads to changes. */
    private static final class Output extends OutputStream {
        final PrintStream printed = new PrintStream(this, true);
        private ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            bytes.write(one);
        }

        @Override
        public synchronized void write(byte[] some, int offset, int length) {
            bytes.write(some, offset, length);
        }

        synchronized byte[] taken() {
            printed.flush();
            byte[] all = bytes.toByteArray();
            bytes = new ByteArrayOutputStream();
            return all;
        }
    }

    /** The same for the other direction. */
    private static final class Input extends InputStream {
        private byte[] bytes = new byte[0];
        private int place;

        void give(byte[] all) {
            bytes = all;
            place = 0;
        }

        @Override
        public int read() {
            return place < bytes.length ? bytes[place++] & 0xff : -1;
        }

        @Override
        public int available() {
            return bytes.length - place;
        }
    }

    private static final Output out = new Output();
    private static final Output err = new Output();
    private static final Input in = new Input();
    private static final List<Runnable> hooks = new ArrayList<>();
    private static Integer status;

    public static void main(String[] args) throws Exception {
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream told = new DataOutputStream(System.out);
        System.setIn(in);
        System.setOut(out.printed);
        System.setErr(err.printed);
        Exit.setExitProcedure((code, message) -> leave(code));
        Exit.setHaltProcedure((code, message) -> leave(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        URL[] jars = jarsOfKafka();
        while (true) {
            String mainClass;
            try {
                mainClass = asked.readUTF();
            } catch (EOFException end) {
                System.exit(0);
                return;
            }
            String[] words = new String[asked.readInt()];
            for (int i = 0; i < words.length; i++) {
                words[i] = asked.readUTF();
            }
            byte[] input = new byte[asked.readInt()];
            asked.readFully(input);
            in.give(input);
            told.writeInt(run(jars, mainClass, words));
            write(told, out.taken());
            write(told, err.taken());
            told.flush();
        }
    }

    private static int run(URL[] jars, String mainClass, String[] words) throws IOException {
        status = null;
        hooks.clear();
        try (OwnClasses classes = new OwnClasses(jars)) {
            Thread.currentThread().setContextClassLoader(classes);
            try {
                Class.forName(mainClass, true, classes).getMethod("main", String[].class).invoke(null, (Object) words);
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Left)) {
                    thrown.getCause().printStackTrace();
                    note(1);
                }
            } catch (ReflectiveOperationException wrong) {
                wrong.printStackTrace();
                note(1);
            }
            for (Runnable hook : hooks) {
                try {
                    hook.run();
                } catch (Throwable thrown) {
                    thrown.printStackTrace();
                }
            }
        }
        return status == null ? 0 : status;
    }

    private static void leave(int code) {
        note(code);
        throw new Left();
    }

    /** A tool that caught its end and leaves again has left with the first status. */
    private static void note(int code) {
        if (status == null) {
            status = code;
        }
    }

    private static void write(DataOutputStream told, byte[] bytes) throws IOException {
        told.writeInt(bytes.length);
        told.write(bytes);
    }

    private static URL[] jarsOfKafka() throws IOException {
        List<URL> found = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            File file = new File(path);
            if (file.getName().startsWith("kafka")) {
                found.add(file.toURI().toURL());
            }
        }
        return found.toArray(new URL[0]);
    }
}
