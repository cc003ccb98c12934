/* command.h - runs another program and says in one sentence why it failed.
 * THREADS: any thread may run commands; the caller blocks until the command has ended. */
#ifndef YK_DATA_COMMAND_H
#define YK_DATA_COMMAND_H

#include "base/error.h"

#include <stdbool.h>

bool yk_command_found(const char *name); /* is there such a program on PATH? */

/* Run argv[0], looked up on PATH, in `folder`, without a shell and with nothing to read. Any exit status but 0, a signal, or
 * taking longer than `seconds` is YK_FAILED, and the text quotes the first line that the command printed. The command is
 * killed when the calling thread dies. */
yk_code yk_command_run(const char *const argv[], const char *folder, double seconds,
                       struct yk_error *e);

#endif
