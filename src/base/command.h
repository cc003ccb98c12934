/* command.h - runs another program and explains a failure in one sentence.
 * THREADS: any thread may run commands; the caller blocks until the command has ended. */
#ifndef YK_BASE_COMMAND_H
#define YK_BASE_COMMAND_H

#include "base/error.h"

#include <stdbool.h>

/* Is there a program of this name on PATH? */
bool yk_command_found(const char *name);

/* Runs argv[0], found on PATH, in `folder`, without a shell and with empty input. It is YK_FAILED
 * if the exit status is not 0, a signal ends the command, or it takes longer than `seconds`; the
 * text quotes the first line that the command printed. The command is killed when the calling
 * thread ends. */
yk_code yk_command_run(const char *const argv[], const char *folder, double seconds,
                       struct yk_error *e);

#endif
