/* file.h - files that are either whole or absent.
 *
 * Everything yoke leaves behind for later (checkpoints, summaries, exported models, fetched data) is written to a temporary
 * name beside its target, flushed to the disk and renamed, so that a kill or a full disk never leaves half a file under the
 * final name. `yk_outfile` does that for streams, `yk_file_write` for a buffer.
 * THREADS: a struct yk_outfile belongs to one thread; two writers of one path are safe, the later rename wins. */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_PATH_MAX 4096

struct yk_outfile {
    bool
        hasty; /* set after opening: rename without waiting for the disk. Whole after a kill, not after a power cut */
    int fd;    /* open on `temp`; -1 when closed */
    char path[YK_PATH_MAX]; /* the final name */
    char temp
        [YK_PATH_MAX]; /* "<path>.tmp.<pid>.<n>"; "" where the target is a pipe or a device, which is written as it is */
};

/* Open a temporary file beside `path`; a folder of that name is YK_USAGE. On failure nothing is left behind and `o` needs no release. */
yk_code yk_outfile_open(struct yk_outfile *o, const char *path, struct yk_error *e);
yk_code yk_outfile_write(struct yk_outfile *o, const void *bytes, size_t n, struct yk_error *e);
/* fsync, rename to the final name, fsync the folder. On failure the temporary file is removed. */
yk_code yk_outfile_commit(struct yk_outfile *o, struct yk_error *e);
/* Close and remove the temporary file. Does nothing after a commit or a second time. */
void yk_outfile_abort(struct yk_outfile *o);

/* The whole of `bytes` under `path`, atomically but hastily: for small files that every start writes. A sync costs 10 ms and more. */
yk_code yk_file_write(const char *path, const void *bytes, size_t n, struct yk_error *e);

/* The whole file into a fresh NUL-terminated buffer (caller frees). More than `max` bytes is YK_DATA. */
yk_code yk_file_read(const char *path, size_t max, char **bytes, size_t *n, struct yk_error *e);

/* Remove the temporary files in `dir` whose writers are no longer alive. */
void yk_sweep(const char *dir);

/* Make a folder and its parents. An existing folder is fine. */
yk_code yk_mkdirs(const char *path, struct yk_error *e);

/* snprintf into a path buffer of YK_PATH_MAX; a path that does not fit is YK_USAGE. */
yk_code yk_path(char out[YK_PATH_MAX], struct yk_error *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

bool yk_is_dir(const char *path);
bool yk_exists(const char *path);

/* $XDG_CACHE_HOME/yoke, else $HOME/.cache/yoke. */
yk_code yk_cache_dir(char out[YK_PATH_MAX], struct yk_error *e);

/* `bytes` as people read it: "47.0 MB". Returns `out`. */
const char *yk_size_text(uint64_t bytes, char out[24]);
/* 1234567 as "1,234,567". */
const char *yk_count_text(uint64_t v, char out[32]);

#endif
