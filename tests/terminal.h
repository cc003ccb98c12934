/* terminal.h - reads the bytes that were written to the other end of a pseudo-terminal. */
#ifndef YK_TESTS_TERMINAL_H
#define YK_TESTS_TERMINAL_H

#include <poll.h>
#include <stddef.h>
#include <unistd.h>

/* Reads from `fd` until nothing comes for a fifth of a second; the result is NUL-terminated. */
static inline void read_all(int fd, char *seen, size_t cap)
{
    size_t got = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (got < cap - 1 && poll(&p, 1, 200) > 0) {
        ssize_t n = read(fd, seen + got, cap - 1 - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    seen[got] = '\0';
}

#endif
