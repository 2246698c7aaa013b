import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
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

    private static final List<Runnable> hooks = new ArrayList<>();
    private static Integer status;

    public static void main(String[] args) throws Exception {
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream told = new DataOutputStream(System.out);
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
            run(jars, mainClass, words, new ByteArrayInputStream(input), told);
        }
    }

    private static void run(URL[] jars, String mainClass, String[] words, InputStream input, DataOutputStream told)
            throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(input);
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
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
        System.out.flush();
        System.err.flush();
        told.writeInt(status == null ? 0 : status);
        write(told, out.toByteArray());
        write(told, err.toByteArray());
        told.flush();
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
