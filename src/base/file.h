/* file.h - files that are either whole or absent; folders and paths.
 *
 * Every file that yoke keeps (checkpoints, summaries, exported models, fetched data) is written
 * under a temporary name beside its target, flushed to the disk and renamed. So a kill or a full
 * disk never leaves half a file under the final name. `yk_outfile` does this for streams,
 * `yk_file_write` for a buffer. *Hasty* writing does not wait for the disk: the file is whole after
 * a kill, but perhaps not after a power cut. A sync costs 10 ms and more, so small files that every
 * start writes are hasty.
 * THREADS: a struct yk_outfile belongs to one thread. Two writers of one path are safe: the later
 * rename wins. */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_PATH_MAX 4096

struct yk_outfile {
    bool hasty;             /* false after opening; the caller may set it */
    int fd;                 /* -1 when closed */
    char path[YK_PATH_MAX]; /* the final name */
    /* "<path>.tmp.<pid>.<n>"; "" if the target is a pipe, a device or an open descriptor such as
     * /dev/stdout, which is written directly. */
    char temp[YK_PATH_MAX];
};

/* Opens a temporary file beside `path`; a folder of that name is YK_USAGE. After a failure there is
 * nothing to abort. */
yk_code yk_outfile_open(struct yk_outfile *o, const char *path, struct yk_error *e);
yk_code yk_outfile_write(struct yk_outfile *o, const void *bytes, size_t n, struct yk_error *e);
/* Overwrites bytes that were written earlier, from byte `at` on. */
yk_code yk_outfile_patch(struct yk_outfile *o, const void *bytes, size_t n, uint64_t at,
                         struct yk_error *e);
/* Syncs the file, renames it to its final name and syncs the folder. A failure removes the
 * temporary file. If only the folder could not be synced, the file exists but may be gone after a
 * power cut. */
yk_code yk_outfile_commit(struct yk_outfile *o, struct yk_error *e);
/* Closes and removes the temporary file. Does nothing after a commit or an earlier abort. */
void yk_outfile_abort(struct yk_outfile *o);

/* Writes a whole file, atomically and hastily. */
yk_code yk_file_write(const char *path, const void *bytes, size_t n, struct yk_error *e);
/* The same, but the file is on the disk when the function returns. */
yk_code yk_file_keep(const char *path, const void *bytes, size_t n, struct yk_error *e);

/* Reads a whole file into a new NUL-terminated buffer, which the caller frees. A file of more than
 * `max` bytes is YK_DATA. */
yk_code yk_file_read(const char *path, size_t max, char **bytes, size_t *n, struct yk_error *e);

/* YK_DATA if `path` exists and is not a regular file, for names that yoke itself writes and reads:
 * opening a pipe would wait for its other end. */
yk_code yk_file_regular(const char *path, struct yk_error *e);

/* Removes the temporary files in `dir` whose writers are no longer alive. They may have filled the
 * disk, so this comes before a write. */
void yk_sweep(const char *dir);

/* Makes a folder and its parents. An existing folder is fine. */
yk_code yk_mkdirs(const char *path, struct yk_error *e);
/* The same, but the names of the new folders are on the disk when the function returns. */
yk_code yk_keep_dirs(const char *path, struct yk_error *e);
/* Waits until the name of a file or folder is on the disk. Does nothing where folders cannot be
 * synced. */
yk_code yk_sync_name(const char *path, struct yk_error *e);

/* snprintf into a path buffer of YK_PATH_MAX; a path that does not fit is YK_USAGE. */
yk_code yk_path(char out[YK_PATH_MAX], struct yk_error *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

bool yk_is_dir(const char *path);
bool yk_exists(const char *path);

/* $XDG_CACHE_HOME/yoke, else $HOME/.cache/yoke. */
yk_code yk_cache_dir(char out[YK_PATH_MAX], struct yk_error *e);

#endif
