/* terminal.h - reads what was written to the far end of a pseudo-terminal, which may arrive in pieces. */
#ifndef YK_TESTS_TERMINAL_H
#define YK_TESTS_TERMINAL_H

#include <poll.h>
#include <stddef.h>
#include <unistd.h>

/* Everything there is to read from `fd`, until nothing comes for a fifth of a second; NUL-terminated. */
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
