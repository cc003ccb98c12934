/* mpirun_output.h - the output of mpirun, cut into lines and sorted: records, messages of our
 * ranks, and noise. mpirun explains every fault in paragraphs of its own, most of them about
 * something that yoke handles. The last forty lines are kept, and shown only if the job ends
 * without a result.
 * THREADS: none of it is shared. */
#ifndef YK_LAUNCH_MPIRUN_OUTPUT_H
#define YK_LAUNCH_MPIRUN_OUTPUT_H

#include "base/buf.h"
#include "launch/mpirun.h"

#include <stdbool.h>
#include <stddef.h>

/* --- lines --- */

struct yk_lines {
    struct yk_buf part; /* of a line that has not ended yet */
    bool skip;          /* it is longer than any line of ours: drop the rest of it */
};

/* Cuts `n` bytes into lines, and calls `line` for each, without its end. */
void yk_lines_feed(struct yk_lines *l, const char *bytes, size_t n,
                   void (*line)(void *arg, const char *text, size_t n), void *arg);
/* The stream has ended: calls `line` for a last line without an end. */
void yk_lines_end(struct yk_lines *l, void (*line)(void *arg, const char *text, size_t n),
                  void *arg);

/* Does a rank of ours say this to the user? It goes to standard error as it is. */
bool yk_line_is_ours(const char *text, size_t n);

/* --- noise --- */

enum { YK_NOISE_LINES = 40, YK_NOISE_LINE = 240 };

struct yk_noise {
    char line[YK_NOISE_LINES][YK_NOISE_LINE]; /* a ring, control characters replaced */
    size_t n;                                 /* lines so far */
};

/* Returns the line as it is kept; NULL if it is blank or a rule across the page. */
const char *yk_noise_add(struct yk_noise *noise, const char *text, size_t n);
void yk_noise_show(const struct yk_noise *noise); /* on standard error, "mpirun: " before each */

/* If the noise shows that mpirun could not reach a host, fills `e` with the host and the cause and
 * returns true. */
bool yk_noise_blame(const struct yk_noise *noise, const struct yk_launch *l, struct yk_error *e);

#endif
