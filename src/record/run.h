/* run.h - the run folder: runs/<model>-<mode>-<date>-<n>, never reused, and runs/latest that links to the newest.
 *
 *     config.json     every option as the run saw it        summary.json   the result, written at the end
 *     ranks.json      rank, role, host, pid                 log.txt        what it said
 *     metrics.jsonl   one line per record                   checkpoints/   step-<n>.safetensors
 *     events/<role>-<rank>/   TensorBoard */
#ifndef YK_RECORD_RUN_H
#define YK_RECORD_RUN_H

#include "base/error.h"
#include "base/file.h"

#include <jansson.h>
#include <stdbool.h>

struct yk_run {
    char dir[YK_PATH_MAX];
    int lock; /* flock'ed descriptor on the folder while a process trains in it; -1 if none */
};

/* A new folder. `dir` NULL: runs/<model>-<mode>-<yyyymmdd>-<n> below the current folder with the lowest free n, made by
 * mkdir so that two starts never share one, and runs/latest is pointed at it atomically. `dir` given: that folder, which must not exist
 * (YK_USAGE, with the hint to use --resume). */
yk_code yk_run_create(struct yk_run *r, const char *dir, const char *model, const char *mode,
                      struct yk_error *e);

/* An existing folder with a config.json (YK_DATA otherwise). `train`: take the lock, YK_USAGE if another process trains in it. */
yk_code yk_run_open(struct yk_run *r, const char *dir, bool train, struct yk_error *e);
void yk_run_close(struct yk_run *r);

/* Path of `name` inside the folder. */
yk_code yk_run_path(const struct yk_run *r, const char *name, char out[YK_PATH_MAX],
                    struct yk_error *e);

yk_code yk_run_save(const struct yk_run *r, const char *name, const json_t *value,
                    struct yk_error *e);
yk_code yk_run_load(const struct yk_run *r, const char *name, json_t **value, struct yk_error *e);

struct yk_rank {
    const char *role; /* "ps" or "worker" */
    char host[64];
    int pid;
};
/* ranks.json: {"ranks": [{"rank":0,"role":"worker","host":...,"pid":...}, ...]} */
yk_code yk_run_save_ranks(const struct yk_run *r, const struct yk_rank *rank, unsigned n,
                          struct yk_error *e);

#endif
