/* shelf.h - the folder of caches: who makes one, when it was last used, and which ones have to go.
 * THREADS: no state. */
#ifndef YK_DATA_SHELF_H
#define YK_DATA_SHELF_H

#include "base/file.h"

/* The right to make the cache at `path`: a descriptor to close when it is made. Waits while another process has it. -1: there is none to be
 * had, and *e says why. */
int yk_shelf_lock(const char *path, struct yk_error *e);

/* Under its lock: whatever is half-written of the cache at `path` belongs to nobody any more. */
void yk_shelf_sweep(const char *path);

/* The cache at `path` has been used just now. */
void yk_shelf_used(const char *path);

/* Remove the caches beside `path` that have not been used for longest until all together have at most `most` bytes; neither `path` nor what
 * was used during the last day, as another host may have it mapped. Half-written files of that age go, too. */
void yk_shelf_trim(const char *path, uint64_t most);

/* A name in the folder, which is made if need be, for a file that will lose it at once. */
yk_code yk_shelf_place(char path[YK_PATH_MAX], struct yk_error *e);

/* How much the caches beside `path` may take: a quarter of the file system, 100 GB at most. */
uint64_t yk_shelf_room(const char *path);

#endif
