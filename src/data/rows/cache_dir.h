/* cache_dir.h - the folder of caches: which process makes a cache, when each was last used, and
 * which ones are deleted.
 * THREADS: no state. */
#ifndef YK_DATA_ROWS_CACHE_DIR_H
#define YK_DATA_ROWS_CACHE_DIR_H

#include "base/file.h"

/* Takes the lock on the cache at `path` and returns a descriptor to close when it is made. Waits
 * while another process has the lock. -1: it cannot be had, and *e says why. */
int yk_cache_dir_lock(const char *path, struct yk_error *e);

/* Deletes half-written files of the cache at `path`. Only under its lock. */
void yk_cache_dir_sweep(const char *path);

/* Marks the cache at `path` as used now. */
void yk_cache_dir_used(const char *path);

/* Deletes the least recently used caches beside `path` until all of them have at most `most` bytes.
 * Keeps `path`, and caches used during the last day, which another host may have mapped.
 * Half-written files that are older than a day are deleted, too. */
void yk_cache_dir_trim(const char *path, uint64_t most);

/* A path in the folder, which is made if need be, for a file that will lose its name at once. */
yk_code yk_cache_dir_unnamed(char path[YK_PATH_MAX], struct yk_error *e);

/* Bytes that the caches beside `path` may take: a quarter of the file system, at most 100 GB. */
uint64_t yk_cache_dir_room(const char *path);

#endif
