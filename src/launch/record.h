/* record.h - how ranks tell their yoke parent what it must know, over standard output.
 *
 * mpirun forwards what a rank prints from any host, so a record is one line there:
 *
 *     1e 'yoke ' {"kind":"started","folder":"runs/x","ranks":4,"seconds":0.41,"step":0,"resumable":false} 0a
 *     1e 'yoke ' {"kind":"alive","within":15}
 *     1e 'yoke ' {"kind":"saved","step":1000}
 *     1e 'yoke ' {"kind":"lost","why":"rank 0 is silent"}
 *     1e 'yoke ' {"kind":"done","code":0,"signal":0,"folder":"runs/x","resumable":true,"step":7100,"output":"..."}
 *
 * 1e is the record separator of RFC 7464; nothing a person prints begins with it. Strings are bytes, not characters: a byte past
 * 7e is written \u00XX, so that the line is plain ASCII and whatever a file is called comes out as it went in.
 *
 * In order: once `started` by rank 0, when every rank can be told to stop by SIGUSR1; `saved` whenever a checkpoint is safe; at the end
 * exactly one `done`, with the text that the user shall see on standard output. `alive`, if rank 0 sends any, promises another record
 * within so many seconds: a parent behind mpirun learns in no other way that all ranks of a lost host are gone. `lost` may come from
 * any rank, when rank 0 can no longer speak for itself. A reader takes every line that is no record for noise; a writer that is
 * killed leaves half a line, which is noise too.
 * THREADS: the writing functions may be called from any thread (a line is written under stdout's lock); parsing shares nothing. */
#ifndef YK_LAUNCH_RECORD_H
#define YK_LAUNCH_RECORD_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The environment variable by which a parent tells its ranks that it is there; its value names the run's scratch folder. */
#define YK_PARENT_VARIABLE "YOKE_PARENT"
/* ... and how often this job was restarted already. */
#define YK_RESTARTS_VARIABLE "YOKE_RESTARTS"

enum { YK_RECORD_MAX = 16 << 20 }; /* bytes of a line */

enum yk_record_kind {
    YK_RECORD_STARTED,
    YK_RECORD_ALIVE,
    YK_RECORD_SAVED,
    YK_RECORD_LOST,
    YK_RECORD_DONE
};

/* What a line says; fields that its kind does not have are zero. */
struct yk_record {
    enum yk_record_kind kind;
    char folder[YK_PATH_MAX]; /* started, done: the run folder; "" if the job has none */
    int64_t step;             /* started, saved, done: the global step */
    bool resumable;           /* started, done: there is a checkpoint to go on from */
    int ranks;                /* started */
    double
        seconds; /* started: since the launch of the rank. alive: the next record comes within these */
    int code;    /* done: the exit code, 0 .. 255 */
    int signal;   /* done: the signal that stopped the job, 0 if none */
    char *output; /* done: for standard output. lost: why. The caller frees it */
};

/* --- for ranks --- */

bool yk_record_wanted(void); /* is there a parent that reads our standard output? */
int yk_record_restarts(
    void); /* how often it has started this job again; 0 the first time, and without a parent */

void yk_record_started(const char *folder, int ranks, double seconds, int64_t step, bool resumable);
void yk_record_alive(double within);
void yk_record_saved(int64_t step);
void yk_record_lost(const char *why);
/* `signal` is the one that stopped the job, or 0; the parent knows which one the user sent. */
void yk_record_done(int code, int signal, const char *folder, bool resumable, int64_t step,
                    const char *output);

/* --- for the parent --- */

/* Is this line (without its end) a record? If so it is in `out`, and out->output is the caller's. */
bool yk_record_parse(const char *line, size_t n, struct yk_record *out);

#endif
