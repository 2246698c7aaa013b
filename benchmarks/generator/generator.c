/* Sends requests that were encoded beforehand, and takes so little for it that the broker is what is
   measured. `send` keeps requests in flight; `deliver` produces records until a waiting consumer has them.
   python_generator.py does the same, and says the same, where there is no C compiler; __init__.py says
   what the settings mean. Compiled with WITH_TLS, it speaks TLS for `tls=1`, and `connect` makes
   connections one after the other. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#endif

enum { HEAD_BYTES = 256, READ_BYTES = 1 << 20, OUT_BYTES = 4 << 20, EVENTS = 256 };
enum { SIZE_BYTES = 4, CORRELATION_ID = 8, ANSWERED_ID = 4 };           /* in requests, in answers */
enum { CRC = 17, CHECKED = 21, BASE_SEQUENCE = 53, RECORD_COUNT = 57 }; /* in a batch */
#define MICROSECOND 1000L
#define SECOND 1000000000L

struct frame {
    unsigned char *bytes;
    uint32_t size, crc_of_bit[32];
};
struct connection {
    int fd;
    struct ssl_st *tls; /* NULL: it is plain */
    uint32_t sent, answered, seen, size;
    unsigned char head[HEAD_BYTES];
};

static struct frame *frames;
static long frame_count, sent, error_at, rising_at, batch_at = -1;
static struct connection *connections;
static unsigned char input[READ_BYTES], out[OUT_BYTES];
static long out_size;
static struct connection *out_to;
static int poller;

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}
static uint32_t get(const unsigned char *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static void put(unsigned char *p, uint32_t v) { p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v; }
static void put_long(unsigned char *p, uint64_t v) { put(p, v >> 32), put(p + 4, (uint32_t)v); }
static long now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) fail("the broker has ended");
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* The settings are words NAME=VALUE. */
static int word_count;
static char **words;
static const char *text_of(const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < word_count; i++)
        if (!strncmp(words[i], name, length) && words[i][length] == '=') return words[i] + length + 1;
    return NULL;
}
static long number_of(const char *name, long otherwise) {
    const char *text = text_of(name);
    return text ? atol(text) : otherwise;
}

/* CPU of the brokers so far; the clock of a process counts threads that have ended, too. */
static long cpu_of_brokers(void) {
    long total = 0;
    for (const char *p = text_of("pids"); p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : "") {
        clockid_t clock;
        if (clock_getcpuclockid(atoi(p), &clock)) fail("the broker has ended");
        total += now(clock);
    }
    return total;
}

static uint32_t crc32c(const unsigned char *p, long size) {
    uint32_t crc = ~0u;
    while (size--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}
/* A checksum changes by the same bits whenever the same bits of the content change. */
static void learn_bits(struct frame *f) {
    unsigned char *batch = f->bytes + batch_at;
    long size = get(batch + 8) + 12 - CHECKED;
    uint32_t before = crc32c(batch + CHECKED, size);
    for (int bit = 0; bit < 32; bit++) {
        put(batch + BASE_SEQUENCE, 1u << bit);
        f->crc_of_bit[bit] = crc32c(batch + CHECKED, size) ^ before;
    }
    put(batch + BASE_SEQUENCE, 0);
}
static void number_batch(unsigned char *batch, const struct frame *f, long request) {
    uint32_t sequence = (uint32_t)(request * get(batch + RECORD_COUNT)) & 0x7fffffff, crc = get(batch + CRC);
    put(batch + BASE_SEQUENCE, sequence);
    for (int bit = 0; bit < 31; bit++)
        if (sequence >> bit & 1) crc ^= f->crc_of_bit[bit];
    put(batch + CRC, crc);
}

static void read_frames(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("no frames");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(size);
    if (fread(bytes, 1, size, file) != (size_t)size) fail("the frames cannot be read");
    fclose(file);
    for (long at = 0; at < size; at += SIZE_BYTES + get(bytes + at)) frame_count++;
    frames = calloc(frame_count, sizeof *frames);
    for (long at = 0, i = 0; at < size; at += frames[i++].size) {
        frames[i].bytes = bytes + at;
        frames[i].size = SIZE_BYTES + get(bytes + at);
        if (batch_at >= 0) learn_bits(&frames[i]);
    }
}

#ifdef WITH_TLS
static SSL_CTX *context;
static void agree(struct connection *c) {
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_read_ahead(context, 1); /* one system call for several records */
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    }
    c->tls = SSL_new(context);
    SSL_set_fd(c->tls, c->fd);
    if (SSL_connect(c->tls) != 1) fail("no handshake");
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK); /* a read may have nothing but keys */
}
static long write_some(struct connection *c, const unsigned char *bytes, long size) {
    if (!c->tls) return write(c->fd, bytes, size);
    int written = SSL_write(c->tls, bytes, (int)size);
    if (written > 0) return written;
    if (SSL_get_error(c->tls, written) != SSL_ERROR_WANT_WRITE) return -1;
    poll(&(struct pollfd){c->fd, POLLOUT, 0}, 1, -1);
    return 0;
}
static long read_some(struct connection *c) {
    if (!c->tls) return recv(c->fd, input, READ_BYTES, MSG_DONTWAIT);
    long got = 0;
    int some = 0;
    do some = SSL_read(c->tls, input + got, (int)(READ_BYTES - got)), got += some > 0 ? some : 0;
    while (some > 0 && got < READ_BYTES);
    if (got || SSL_get_error(c->tls, some) != SSL_ERROR_WANT_READ) return got;
    errno = EAGAIN;
    return -1;
}
static void disconnect(struct connection *c) {
    if (c->tls) SSL_free(c->tls);
    close(c->fd);
}
#else
static void agree(struct connection *c) { (void)c, fail("compiled without TLS"); }
static long write_some(struct connection *c, const unsigned char *bytes, long size) { return write(c->fd, bytes, size); }
static long read_some(struct connection *c) { return recv(c->fd, input, READ_BYTES, MSG_DONTWAIT); }
static void disconnect(struct connection *c) { close(c->fd); }
#endif

static void flush(void) {
    for (long at = 0; at < out_size;) {
        long written = write_some(out_to, out + at, out_size - at);
        if (written < 0) fail(strerror(errno));
        at += written;
    }
    out_size = 0;
}
/* Room for a frame that `flush` sends, together with others for the same connection. */
static unsigned char *queue(struct connection *c, const struct frame *f) {
    if (f->size > OUT_BYTES) fail("a frame is too large");
    if (out_size && (out_to != c || out_size + f->size > OUT_BYTES)) flush();
    unsigned char *at = out + out_size;
    memcpy(at, f->bytes, f->size);
    put(at + CORRELATION_ID, c->sent++);
    out_to = c;
    out_size += f->size;
    return at;
}
static void queue_next(struct connection *c) {
    const struct frame *f = &frames[sent % frame_count];
    unsigned char *at = queue(c, f);
    if (batch_at >= 0) number_batch(at + batch_at, f, sent);
    sent++;
    if (rising_at) put(at + rising_at, (uint32_t)sent);
}

static void check(struct connection *c, long at) {
    if (get(c->head + ANSWERED_ID) != c->answered) fail("an answer is out of order");
    if (at && (at + 2 > c->seen || c->head[at] || c->head[at + 1])) {
        fprintf(stderr, "answer %u has error %d\n", c->answered, (int16_t)(c->head[at] << 8 | c->head[at + 1]));
        exit(1);
    }
    c->answered++;
}
/* Take what has arrived, once; how many answers that ended, each of which is checked. */
static long receive(struct connection *c, long check_at) {
    long got = read_some(c), at = 0, ended = 0;
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) fail("the broker closed a connection");
    while (at < got) {
        long wanted = c->seen < SIZE_BYTES ? SIZE_BYTES - c->seen : SIZE_BYTES + c->size - c->seen;
        long some = wanted < got - at ? wanted : got - at;
        if (c->seen < HEAD_BYTES)
            memcpy(c->head + c->seen, input + at, some < HEAD_BYTES - c->seen ? some : HEAD_BYTES - c->seen);
        c->seen += some, at += some;
        if (c->seen == SIZE_BYTES && some == wanted) c->size = get(c->head);
        if (c->seen > SIZE_BYTES && c->seen == SIZE_BYTES + c->size) check(c, check_at), c->seen = 0, ended++;
    }
    return ended;
}

static struct connection *connected(struct connection *c, const struct sockaddr_in *address) {
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (const void *)address, sizeof *address)) fail(strerror(errno));
    if (number_of("tls", 0)) agree(c);
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    return c;
}
static struct sockaddr_in address_of_broker(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    inet_pton(AF_INET, words[0], &address.sin_addr);
    return address;
}
static void wait_for_answer(struct connection *c, long check_at) {
    for (struct pollfd waiting = {c->fd, POLLIN, 0}; !receive(c, check_at);) poll(&waiting, 1, -1);
}
/* Each of several is answered once before the next: the broker has accepted it, and none is left waiting. */
static void connect_all(long count, int greet) {
    struct sockaddr_in address = address_of_broker();
    poller = epoll_create1(0);
    connections = calloc(count, sizeof *connections);
    for (long i = 0; i < count; i++) {
        struct connection *c = connected(&connections[i], &address);
        if (!greet) continue;
        queue_next(c);
        flush();
        wait_for_answer(c, error_at);
    }
}

/* Requests take turns over the connections. */
static long send_requests(long count, long requests, long in_flight, long seconds) {
    long places = count > in_flight ? count : in_flight, next = 0, answered = 0, pending = 0;
    long until = seconds ? now(CLOCK_MONOTONIC) + seconds * SECOND : 0;
    struct connection **idle = malloc(places * sizeof *idle);
    for (long i = 0; i < places; i++) idle[i] = &connections[i % count];
    while (pending < in_flight && pending < requests) queue_next(idle[next++ % places]), pending++;
    flush();
    while (pending) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, -1);
        if (until && now(CLOCK_MONOTONIC) > until) requests = 0;
        for (int i = 0; i < ready; i++) {
            for (long ended = receive(events[i].data.ptr, error_at); ended; ended--) {
                idle[answered++ % places] = events[i].data.ptr;
                pending--;
                if (answered + pending < requests) queue_next(idle[next++ % places]), pending++;
            }
        }
        flush();
    }
    free(idle);
    return answered;
}

static void send_all(void) {
    long count = number_of("connections", 1);
    connect_all(count, count > 1);
    long cpu = cpu_of_brokers(), begun = now(CLOCK_MONOTONIC);
    long answered = send_requests(count, number_of("requests", 1), number_of("in_flight", 1), number_of("seconds", 0));
    printf("%ld %ld %ld %ld\n", answered, now(CLOCK_MONOTONIC) - begun, cpu_of_brokers() - cpu, sent);
}

#ifdef WITH_TLS
static long from_hex(unsigned char *bytes, const char *text) {
    long size = 0;
    while (sscanf(text + 2 * size, "%2hhx", bytes + size) == 1) size++;
    return size;
}
/* The last message of a login by SCRAM-SHA-512 (the user's keys are known), in the place of the one before. */
static void queue_proof(struct connection *c, const struct frame *f) {
    enum { CHALLENGE = 16, KEY_BYTES = 64 };
    unsigned char client_key[KEY_BYTES], stored_key[KEY_BYTES], proof[KEY_BYTES], text[128];
    char bare[256], message[1024], *challenge = (char *)c->head + CHALLENGE;
    long first_size = strlen(text_of("first_bare")), header = f->size - first_size - SIZE_BYTES - strlen("n,,");
    challenge[get(c->head + CHALLENGE - SIZE_BYTES)] = 0;
    snprintf(bare, sizeof bare, "c=biws,%.*s", (int)strcspn(challenge, ","), challenge);
    snprintf(message, sizeof message, "%s,%s,%s", text_of("first_bare"), challenge, bare);
    from_hex(client_key, text_of("client_key")), from_hex(stored_key, text_of("stored_key"));
    HMAC(EVP_sha512(), stored_key, KEY_BYTES, (void *)message, strlen(message), proof, NULL);
    for (int i = 0; i < KEY_BYTES; i++) proof[i] ^= client_key[i];
    EVP_EncodeBlock(text, proof, KEY_BYTES);
    unsigned char *at = queue(c, f), *place = at + header + SIZE_BYTES;
    long size = sprintf((char *)place, "%s,p=%s", bare, text);
    put(place - SIZE_BYTES, size);
    out_size += size + SIZE_BYTES + header - f->size;
    put(at, header + size);
}
#else
static void queue_proof(struct connection *c, const struct frame *f) { (void)c, (void)f, fail("compiled without TLS"); }
#endif

/* One connection after the other, in so many processes: each sends all frames, logs in, and is closed. */
static void connect_in_turn(void) {
    struct sockaddr_in address = address_of_broker();
    long requests = number_of("requests", 1), workers = number_of("workers", 1);
    long until = number_of("seconds", 0) ? now(CLOCK_MONOTONIC) + number_of("seconds", 0) * SECOND : 0;
    long cpu = cpu_of_brokers(), begun = now(CLOCK_MONOTONIC), done = 0;
    int ends[2];
    if (pipe(ends)) fail(strerror(errno));
    for (long worker = 0; worker < workers; worker++) {
        if (fork()) continue;
        poller = epoll_create1(0);
        for (long i = worker; i < requests && (!until || now(CLOCK_MONOTONIC) < until); i += workers, done++) {
            struct connection *c = connected(calloc(1, sizeof *c), &address);
            for (long each = 0; each < frame_count; each++) {
                queue(c, &frames[each]);
                flush();
                wait_for_answer(c, error_at);
            }
            if (text_of("first_bare")) {
                queue_proof(c, &frames[frame_count - 1]);
                flush();
                wait_for_answer(c, error_at);
            }
            disconnect(c), free(c);
        }
        exit(write(ends[1], &done, sizeof done) != sizeof done);
    }
    for (long worker = 0, status; worker < workers; worker++) {
        int ended;
        if (wait(&ended) < 0 || ended) fail("a connection failed");
        if (read(ends[0], &status, sizeof status) == sizeof status) done += status;
    }
    printf("%ld %ld %ld %ld\n", done, now(CLOCK_MONOTONIC) - begun, cpu_of_brokers() - cpu, done);
}

static int by_size(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static void queue_fetch(struct connection *c, long offset) {
    unsigned char *at = queue(c, &frames[1]);
    put_long(at + number_of("offset_at", 0), offset);
    sent++;
    if (rising_at) put(at + rising_at, (uint32_t)sent);
}

/* The first frame produces one record, the second fetches; both connections are served by one loop. */
static void deliver(void) {
    connect_all(2, 0);
    struct connection *producer = &connections[0], *consumer = &connections[1];
    long records = number_of("requests", 1), per_s = number_of("per_s", 0), offset = number_of("offset", 0);
    long empty = number_of("empty_bytes", 0), batch = number_of("batch_bytes", 1);
    long fetch_error_at = number_of("fetch_error_at", 0), *began = calloc(records, sizeof *began);
    long done = 0, delivered = 0, acknowledged = 0, cpu = cpu_of_brokers(), begun = now(CLOCK_MONOTONIC);
    long until = begun + number_of("seconds", 0) * SECOND;
    queue_fetch(consumer, offset);
    flush();
    while (delivered < records || acknowledged < records) {
        long time = now(CLOCK_MONOTONIC), due = begun + (per_s ? (done + 1) * (SECOND / per_s) : 0);
        if (until > begun && time > until) records = done;
        int may = done < records && (per_s || (delivered == done && acknowledged == done));
        if (may && time >= due) {
            queue(producer, &frames[0]);
            began[done++] = time;
            flush();
            continue;
        }
        struct timespec wait = {(due - time) / SECOND, (due - time) % SECOND};
        struct pollfd waiting[2] = {{producer->fd, POLLIN, 0}, {consumer->fd, POLLIN, 0}};
        ppoll(waiting, 2, may ? &wait : NULL, NULL);
        acknowledged += receive(producer, error_at);
        if (receive(consumer, fetch_error_at)) {
            long arrived = (SIZE_BYTES + (long)consumer->size - empty) / batch;
            for (time = now(CLOCK_MONOTONIC); arrived > 0 && delivered < done; arrived--, offset++)
                began[delivered] = time - began[delivered], delivered++;
            if (delivered < records) queue_fetch(consumer, offset);
            flush();
        }
    }
    long took = now(CLOCK_MONOTONIC) - begun;
    cpu = cpu_of_brokers() - cpu;
    qsort(began, records, sizeof *began, by_size);
    printf("%ld %ld %ld %ld %ld %ld\n", delivered, took, cpu, done, began[records / 2], began[records * 99 / 100]);
}

int main(int count, char **arguments) {
    if (count < 5) fail("generator send|deliver|connect HOST PORT FRAMES [NAME=VALUE...]");
    word_count = count - 2, words = arguments + 2;
    prctl(PR_SET_TIMERSLACK, MICROSECOND);
    error_at = number_of("error_at", 0), rising_at = number_of("rising_at", 0);
    batch_at = number_of("batch_at", -1), sent = number_of("first", 0);
    read_frames(arguments[4]);
    if (!strcmp(arguments[1], "deliver")) deliver();
    else if (!strcmp(arguments[1], "connect")) connect_in_turn();
    else send_all();
    return 0;
}
