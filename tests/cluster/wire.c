/* wire.c - measures what a TCP connection carries, for testbed.sh, where no tool like iperf is
 * installed.
 *
 *     wire get PORT [SENDERS]      accepts SENDERS connections (1), reads them to their ends and
 *                                  prints the megabits per second of all of them together
 *     wire put HOST PORT SECONDS   connects, trying for 5 s, and sends that long
 *
 * The first 0.3 s are not measured, since full token buckets make them faster than the rate. Both
 * commands end within 20 s. */
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char block[1 << 16];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int get(int port, int senders)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct pollfd p[16];
    int door = socket(AF_INET, SOCK_STREAM, 0), open_ends = senders, yes = 1;
    double start = 0, last = 0, bytes = 0;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (senders < 1 || senders > 16 || bind(door, (struct sockaddr *)&here, sizeof here) != 0 ||
        listen(door, 16) != 0)
        return 1;
    for (int i = 0; i < senders; i++)
        p[i] = (struct pollfd){.fd = accept(door, NULL, NULL), .events = POLLIN};
    start = now();
    while (open_ends > 0 && poll(p, (nfds_t)senders, 10000) > 0)
        for (int i = 0; i < senders; i++) {
            ssize_t n = p[i].revents != 0 ? read(p[i].fd, block, sizeof block) : -1;
            if (p[i].revents != 0 && n <= 0) {
                close(p[i].fd);
                p[i].fd = -1;
                open_ends--;
            } else if (n > 0 && now() - start > 0.3) {
                last = now();
                bytes += (double)n;
            }
        }
    if (open_ends > 0 || last == 0)
        return 1;
    printf("%.1f\n", bytes * 8 / (last - start - 0.3) / 1e6);
    return 0;
}

static int put(const char *host, const char *port, double seconds)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *there;
    if (getaddrinfo(host, port, &hints, &there) != 0)
        return 1;
    int fd = -1, tries = 0;
    do {
        if (fd >= 0) {
            close(fd);
            usleep(10000);
        }
        fd = socket(AF_INET, SOCK_STREAM, 0);
    } while (connect(fd, there->ai_addr, there->ai_addrlen) != 0 && ++tries < 500);
    freeaddrinfo(there);
    if (tries == 500)
        return 1;
    for (double end = now() + seconds; now() < end;)
        if (write(fd, block, sizeof block) < 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    alarm(20);
    if (argc >= 3 && strcmp(argv[1], "get") == 0)
        return get(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 1);
    if (argc == 5 && strcmp(argv[1], "put") == 0)
        return put(argv[2], argv[3], atof(argv[4]));
    return 2;
}
