/* save.h - checkpoints: written in the background, and read again when a run is resumed. */
#ifndef YK_TRAIN_SAVE_H
#define YK_TRAIN_SAVE_H

#include "base/buf.h"
#include "param/safetensors.h"

#include <stdbool.h>

struct yk_session;
struct yk_saver; /* save.c */

/* `found`: the run goes on from the checkpoint of its present step. */
yk_code yk_saver_open(struct yk_session *s, bool found, struct yk_error *e);
void yk_saver_close(struct yk_session *s);
/* Writes the present state in the background; does nothing while a write is under way. */
yk_code yk_saver_post(struct yk_session *s, struct yk_error *e);
bool yk_saver_busy(const struct yk_session *s);
/* Waits until the checkpoint is on the disk, and returns the error of the write. */
yk_code yk_saver_wait(struct yk_session *s, struct yk_error *e);
/* Reads the newest whole checkpoint of the run into the session; *found = false if there is none
 * yet. YK_DATA if it belongs to another run or has impossible counts: using an older one instead
 * would hide the damage. */
yk_code yk_saver_restore(struct yk_session *s, bool *found, struct yk_error *e);

/* Step of the newest checkpoint on the disk; -1: none. Any thread. */
long long yk_saver_step(const struct yk_session *s);
/* Hash of a sparse model's parameters in the last checkpoint. */
const char *yk_saver_hash(const struct yk_session *s);
/* The writer's thread calls `saved` after every checkpoint. */
void yk_saver_notify(struct yk_session *s, void (*saved)(void *arg, long long step), void *arg);

/* YK_DATA unless `t` has the format that this yoke writes. `path` names it. */
yk_code yk_saved_format(const struct yk_tensors *t, const char *path, struct yk_error *e);
/* Appends the text of "NAME.0", "NAME.1", ... in the metadata; nothing if there are none. */
yk_code yk_saved_text(const struct yk_tensors *t, const char *name, struct yk_buf *out,
                      struct yk_error *e);

#endif
