/* command.c - see command.h.
 *
 * An error quotes the first line of the output, not the last: curl and tar name the cause first and
 * end with remarks like "not recoverable: exiting now". The output is read to its end but only its
 * beginning is kept, so a command that prints a lot neither blocks nor costs memory. */
#include "base/command.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_STARTED = 127, KEPT = 256 };

bool yk_command_found(const char *name)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        char file[4096];
        int len = (int)strcspn(path, ":");
        int n = snprintf(file, sizeof file, "%.*s/%s", len, path, name);
        if (len > 0 && n < (int)sizeof file && access(file, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* Runs in the child after a fork of a program with threads, so it must not allocate memory. */
static _Noreturn void become(const char *const argv[], const char *folder, int out, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int in = open("/dev/null", O_RDONLY);
    if (getppid() == parent && in >= 0 && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 &&
        dup2(out, 2) >= 0 && chdir(folder) == 0)
        execvp(argv[0], (char *const *)argv);
    _exit(NOT_STARTED);
}

/* The first line of `text` that is not blank, cut out in place. */
static const char *first_line(char *text)
{
    text += strspn(text, " \t\r\n");
    text[strcspn(text, "\r\n")] = '\0';
    for (char *p = text; *p != '\0'; p++)
        if (iscntrl((unsigned char)*p))
            *p = '?';
    return text;
}

/* Reads until the command closes its output; false if that takes longer than `seconds`. */
static bool drain(int fd, double seconds, char kept[KEPT])
{
    double end = yk_now() + seconds;
    size_t len = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left = end - yk_now();
        int ready = left > 0 ? poll(&p, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        char some[4096];
        ssize_t n = read(fd, some, sizeof some);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        size_t room = KEPT - 1 - len, take = (size_t)n < room ? (size_t)n : room;
        memcpy(kept + len, some, take);
        len += take;
        kept[len] = '\0';
    }
}

yk_code yk_command_run(const char *const argv[], const char *folder, double seconds,
                       struct yk_error *e)
{
    char kept[KEPT] = "";
    int out[2], status = 0;
    if (pipe2(out, O_CLOEXEC) != 0)
        return yk_fail_errno(e, YK_FAILED, "cannot run '%s'", argv[0]);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(argv, folder, out[1], parent);
    close(out[1]);
    if (child < 0) {
        close(out[0]);
        return yk_fail_errno(e, YK_FAILED, "cannot run '%s'", argv[0]);
    }
    bool ended = drain(out[0], seconds, kept);
    close(out[0]);
    if (!ended)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    const char *line = first_line(kept);
    if (!ended)
        return yk_fail(e, YK_FAILED, "'%s' was stopped because it took longer than %.0f s", argv[0],
                       seconds);
    if (WIFSIGNALED(status))
        return yk_fail(e, YK_FAILED, "'%s' was ended by signal %d", argv[0], WTERMSIG(status));
    if (WEXITSTATUS(status) != 0 && line[0] == '\0')
        return yk_fail(e, YK_FAILED, "'%s' %s %d", argv[0],
                       WEXITSTATUS(status) == NOT_STARTED ? "could not be started: status"
                                                          : "failed with status",
                       WEXITSTATUS(status));
    if (WEXITSTATUS(status) != 0)
        return yk_fail(e, YK_FAILED, "'%s' failed: %s", argv[0], line);
    return YK_OK;
}
