/* text.c - parameters as text for people and scripts; see text.h. */
#include "param/text.h"

#include "base/buf.h"
#include "base/file.h"

enum { FLUSH = 1 << 16 }; /* bytes of text written at a time */

yk_code yk_text_write(const char *path, const struct yk_params *p, struct yk_error *e)
{
    struct yk_outfile file;
    struct yk_buf text = {0};
    yk_code rc = yk_outfile_open(&file, path, e);
    if (rc != YK_OK)
        return rc;
    for (size_t i = 0; i < p->views && rc == YK_OK; i++) {
        const struct yk_view *v = &p->view[i];
        yk_buf_format(&text, "# %s", v->name);
        for (uint32_t d = 0; d < v->ndim; d++)
            yk_buf_format(&text, "%s%llu", d == 0 ? " " : "x", (unsigned long long)v->shape[d]);
        yk_buf_text(&text, "\n");
        for (size_t k = 0; k < v->count && rc == YK_OK; k++) {
            float w = p->flat[v->at + k];
            if (w != 0) /* nine digits preserve every bit of a float */
                yk_buf_format(&text, "%s:%zu:%.9g\n", v->name, k, (double)w);
            if (text.failed) {
                rc = yk_fail_memory(e, text.len);
            } else if (text.len >= FLUSH) {
                rc = yk_outfile_write(&file, text.data, text.len, e);
                yk_buf_clear(&text);
            }
        }
    }
    if (rc == YK_OK && text.len > 0)
        rc = yk_outfile_write(&file, text.data, text.len, e);
    yk_buf_release(&text);
    if (rc == YK_OK)
        return yk_outfile_commit(&file, e);
    yk_outfile_abort(&file);
    return rc;
}
