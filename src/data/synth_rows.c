/* synth_rows.c - made-up rows as a set, to be written in some format. They go through a file without a name in the cache folder, so that
 * memory stays bounded however many there are; if there is no place for one they stay in memory. */
#include "data/builder.h"
#include "data/read.h"
#include "data/shelf.h"
#include "data/synth.h"

enum { ROW_BYTES = 500 }; /* of a row as text, about: how much work it is */

yk_code yk_synth_rows(struct yk_rows **out, const struct yk_synth *s, uint64_t rows,
                      const struct yk_reading *how, struct yk_error *e)
{
    struct yk_builder *b;
    char path[YK_PATH_MAX];
    bool place = yk_shelf_place(path, NULL) == YK_OK;
    yk_code rc = yk_builder_open(&b, place ? path : NULL, true, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_read(NULL, 0, s, rows, rows * ROW_BYTES, how, b, e);
    if (rc == YK_OK)
        rc = yk_builder_finish(b, NULL, 0, out, e);
    yk_builder_close(b);
    return rc;
}
