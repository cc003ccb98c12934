/* run.h - the run folder runs/<model>-<mode>-<date>-<n>, which is never reused; runs/latest links
 * to the newest.
 *
 *     config.json     every option of the run      summary.json   the result, written at the end
 *     ranks.json      rank, role, host, pid        log.txt        the messages of the run
 *     metrics.jsonl   one line per record          checkpoints/   step-<n>.safetensors
 *     events/<role>-<rank>/   TensorBoard */
#ifndef YK_RECORD_RUN_H
#define YK_RECORD_RUN_H

#include "base/error.h"
#include "base/file.h"

#include <jansson.h>
#include <stdbool.h>

struct yk_run {
    char dir[YK_PATH_MAX];
    int lock; /* descriptor that holds the lock of the folder; -1 if none */
};

/* Makes a new folder, locks it and waits until its name is on the disk. If `dir` is NULL, it is
 * runs/<model>-<mode>-<yyyymmdd>-<n> with the lowest free n, and runs/latest is pointed at it.
 * Otherwise it is `dir`, which must not exist (YK_USAGE, with the hint to use --resume). */
yk_code yk_run_create(struct yk_run *r, const char *dir, const char *model, const char *mode,
                      struct yk_error *e);

/* Opens an existing folder with a config.json. Files that a run reads back must be regular files or
 * absent (YK_DATA otherwise). `train` takes the lock: YK_USAGE if another process trains there. */
yk_code yk_run_open(struct yk_run *r, const char *dir, bool train, struct yk_error *e);
void yk_run_close(struct yk_run *r);

/* The path of `name` inside the folder. */
yk_code yk_run_path(const struct yk_run *r, const char *name, char out[YK_PATH_MAX],
                    struct yk_error *e);

yk_code yk_run_save(const struct yk_run *r, const char *name, const json_t *value,
                    struct yk_error *e);
/* The same, but the file is on the disk when the function returns: a resume depends on it. */
yk_code yk_run_keep(const struct yk_run *r, const char *name, const json_t *value,
                    struct yk_error *e);
yk_code yk_run_load(const struct yk_run *r, const char *name, json_t **value, struct yk_error *e);

/* May a verb write its result to `output`? YK_USAGE for a run's own files (those above) and
 * anything in its checkpoints/ and events/. Any other file in a run folder is fine, and so is "-",
 * standard output. */
yk_code yk_run_spare(const char *output, struct yk_error *e);
/* The same for a run that is being read, whose files may have other names through links (see
 * base/apart.h). */
yk_code yk_run_apart(const char *dir, const char *output, struct yk_error *e);

struct yk_rank {
    const char *role; /* "ps" or "worker" */
    char host[64];
    int pid;
};
/* ranks.json: {"ranks": [{"rank":0,"role":"worker","host":...,"pid":...}, ...]} */
yk_code yk_run_save_ranks(const struct yk_run *r, const struct yk_rank *rank, unsigned n,
                          struct yk_error *e);

#endif
