/* record.h - how ranks report to their yoke parent, over standard output.
 *
 * mpirun forwards the output of a rank from any host, so a record is one line of it:
 *
 *     1e 'yoke ' {"kind":"started","folder":"runs/x","ranks":4,"seconds":0.41,"step":0,
 *                 "resumable":false} 0a
 *     1e 'yoke ' {"kind":"alive","within":15}
 *     1e 'yoke ' {"kind":"saved","step":1000}
 *     1e 'yoke ' {"kind":"lost","why":"rank 0 is silent"}
 *     1e 'yoke ' {"kind":"done","code":0,"signal":0,"folder":"runs/x","resumable":true,"step":7100,
 *                 "output":"..."}
 *
 * 1e is the record separator of RFC 7464; no text for people begins with it. Strings are bytes, not
 * characters: a byte past 7e is written \u00XX, so that the line is plain ASCII and any file name
 * arrives unchanged.
 *
 * Order: rank 0 sends `started` once, when every rank can be stopped by SIGUSR1; `saved` whenever a
 * checkpoint is safe; at the end exactly one `done`, with the text for the user's standard output.
 * `alive`, if rank 0 sends any, promises another record within so many seconds: a parent behind
 * mpirun has no other way to learn that all ranks of a lost host are gone. Any rank may send `lost`
 * when rank 0 no longer can. A reader takes every line that is no record for noise; a writer that
 * is killed leaves half a line, which is noise too.
 * THREADS: the writing functions may be called from any thread (a line is written under stdout's
 * lock); parsing shares nothing. */
#ifndef YK_LAUNCH_RECORD_H
#define YK_LAUNCH_RECORD_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The environment variable by which ranks know that they have a parent; its value is the run's
 * scratch folder. */
#define YK_PARENT_VARIABLE "YOKE_PARENT"
/* The environment variable with the number of restarts of this job. */
#define YK_RESTARTS_VARIABLE "YOKE_RESTARTS"

enum { YK_RECORD_MAX = 16 << 20 }; /* bytes of a line */

enum yk_record_kind {
    YK_RECORD_STARTED,
    YK_RECORD_ALIVE,
    YK_RECORD_SAVED,
    YK_RECORD_LOST,
    YK_RECORD_DONE
};

/* One record; fields that its kind does not have are zero. */
struct yk_record {
    enum yk_record_kind kind;
    char folder[YK_PATH_MAX]; /* started, done: the run folder; "" if the job has none */
    int64_t step;             /* started, saved, done: the global step */
    bool resumable;           /* started, done: there is a checkpoint to go on from */
    int ranks;                /* started */
    double seconds; /* started: since the launch of the rank. alive: until the next record */
    int code;       /* done: the exit code, 0 .. 255 */
    int signal;     /* done: the signal that stopped the job, 0 if none */
    char *output;   /* done: for standard output. lost: why. The caller frees it */
};

/* --- for ranks --- */

bool yk_record_wanted(void); /* is there a parent that reads our standard output? */
/* Restarts of this job so far; 0 without a parent. */
int yk_record_restarts(void);

void yk_record_started(const char *folder, int ranks, double seconds, int64_t step, bool resumable);
void yk_record_alive(double within);
void yk_record_saved(int64_t step);
void yk_record_lost(const char *why);
/* `signal` is the one that stopped the job, or 0; the parent knows which one the user sent. */
void yk_record_done(int code, int signal, const char *folder, bool resumable, int64_t step,
                    const char *output);

/* --- for the parent --- */

/* Is this line (without its end) a record? If so it is in `out`, and out->output is the
 * caller's. */
bool yk_record_parse(const char *line, size_t n, struct yk_record *out);

#endif
