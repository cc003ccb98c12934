/* checkpoint.h - the checkpoints/ folder of a run: step-000000000100.safetensors and so on.
 *
 * Writing removes old checkpoints beyond `keep` only when the new one is on the disk. Reading takes
 * the newest whole checkpoint and reports the damaged ones that it skips. */
#ifndef YK_PARAM_CHECKPOINT_H
#define YK_PARAM_CHECKPOINT_H

#include "base/error.h"
#include "base/file.h"
#include "param/safetensors.h"

#include <stdint.h>

/* Writes tensors and metadata as the checkpoint of `step` into `dir` (made if absent), then removes
 * all but the newest `keep` (>= 1) checkpoints and the temporary files of killed writers. `path`
 * receives the file's name. */
yk_code yk_checkpoint_write(const char *dir, uint64_t step, const struct yk_tensor *tensor,
                            size_t n, const struct yk_meta *meta, size_t metas, unsigned keep,
                            char path[YK_PATH_MAX], struct yk_error *e);

/* Reads the newest whole checkpoint of `dir`. `damaged` (may be NULL) is called for each damaged
 * one that is skipped. YK_DATA if none is whole, or if one is a pipe, a folder or a device. *found
 * is false (with YK_OK) if the folder is absent or has no checkpoint at all. */
yk_code yk_checkpoint_newest(const char *dir, struct yk_tensors *out, char path[YK_PATH_MAX],
                             int *found, void (*damaged)(void *arg, const struct yk_error *why),
                             void *arg, struct yk_error *e);

/* Removes the checkpoints of steps after `step`, for a run that ends at an earlier snapshot. */
void yk_checkpoint_drop_after(const char *dir, uint64_t step);

#endif
