/* checkpoint.h - the checkpoints/ folder of a run: step-000000000100.safetensors, newest last.
 *
 * Writing never touches an older file until the new one is on the disk; then the oldest beyond `keep` go. Reading takes the
 * newest that is whole, and says which ones it had to pass over. */
#ifndef YK_PARAM_CHECKPOINT_H
#define YK_PARAM_CHECKPOINT_H

#include "base/error.h"
#include "base/file.h"
#include "param/safetensors.h"

#include <stdint.h>

/* Write tensors and metadata as the checkpoint of `step` into `dir` (made if absent), then remove all but the newest `keep`
 * (>= 1) and temporary files that killed writers left. `path` receives its name. */
yk_code yk_checkpoint_write(const char *dir, uint64_t step, const struct yk_tensor *tensor,
                            size_t n, const struct yk_meta *meta, size_t metas, unsigned keep,
                            char path[YK_PATH_MAX], struct yk_error *e);

/* The newest whole checkpoint of `dir`. For each damaged one before it is found, `damaged(arg, error)` is called (may be NULL).
 * YK_DATA if none is whole; *found = false (and YK_OK) if the folder is absent or holds no checkpoint at all. */
yk_code yk_checkpoint_newest(const char *dir, struct yk_tensors *out, char path[YK_PATH_MAX],
                             int *found, void (*damaged)(void *arg, const struct yk_error *why),
                             void *arg, struct yk_error *e);

/* Remove checkpoints of steps after `step`: a run that ended at an earlier snapshot discards them. */
void yk_checkpoint_drop_after(const char *dir, uint64_t step);

#endif
