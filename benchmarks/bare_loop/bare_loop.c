/* The least that a broker can do for a Produce: read a frame, write its batch to a file, send an answer.
   One connection after the other, on a free port, which it prints.
   bare_loop ANSWER BATCH_AT BATCH_BYTES FILE : the answer is a file with its frame. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_BYTES = 8 << 20, ANSWER_BYTES = 4096, ANSWERS = 64, CORRELATION_ID = 8, ANSWERED_ID = 4 };

static unsigned char input[INPUT_BYTES], out[ANSWER_BYTES * ANSWERS], answer[ANSWER_BYTES];
static long answer_size, batch_at, batch_bytes, written;
static int file;

static long get(const unsigned char *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

/* Answer all whole frames; how many bytes they are, or -1 if something fails. */
static long answer_frames(int client, long have) {
    long at = 0, out_size = 0;
    for (long size; have - at >= 4 && have - at >= (size = 4 + get(input + at)); at += size) {
        if (pwrite(file, input + at + batch_at, batch_bytes, written) != batch_bytes) return -1;
        written += batch_bytes;
        memcpy(out + out_size, answer, answer_size);
        memcpy(out + out_size + ANSWERED_ID, input + at + CORRELATION_ID, 4);
        out_size += answer_size;
        if (out_size + answer_size <= (long)sizeof out) continue;
        if (write(client, out, out_size) != out_size) return -1;
        out_size = 0;
    }
    return out_size && write(client, out, out_size) != out_size ? -1 : at;
}

static void serve(int client) {
    long have = 0, got, done;
    while ((got = read(client, input + have, INPUT_BYTES - have)) > 0) {
        have += got;
        if ((done = answer_frames(client, have)) < 0) return;
        memmove(input, input + done, have - done);
        have -= done;
    }
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), from = open(arguments[1], O_RDONLY);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    answer_size = read(from, answer, sizeof answer);
    batch_at = atol(arguments[2]), batch_bytes = atol(arguments[3]);
    file = open(arguments[4], O_WRONLY | O_CREAT, 0600);
    if (answer_size < 0 || file < 0 || bind(listener, (void *)&address, size) || listen(listener, 16)) return 1;
    getsockname(listener, (void *)&address, &size);
    printf("127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (int client; (client = accept(listener, NULL, NULL)) >= 0; close(client)) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        serve(client);
    }
    return 0;
}
