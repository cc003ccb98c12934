/* idx_info.c - what `yoke data info` says about an IDX file: type and shape for all of them, what the values are for 8-bit
 * ones, and the count of each class where they can be labels (one dimension). */
#include "data/info.h"

#include "base/file.h"
#include "data/idx.h"

#include <stdio.h>
#include <string.h>

static bool sniff(const uint8_t *head, size_t n)
{
    return n >= 4 && head[0] == 0 && head[1] == 0 && yk_idx_type_name(head[2]) != NULL &&
           head[3] >= 1 && head[3] <= YK_IDX_DIMS;
}

static void describe_values(const struct yk_idx *x, struct yk_buf *out)
{
    uint64_t count[256] = {0}, sum = 0;
    for (uint64_t i = 0; i < x->bytes; i++)
        count[x->data[i]]++;
    int min = 255, max = 0;
    for (int v = 0; v < 256; v++) {
        if (count[v] == 0)
            continue;
        min = v < min ? v : min;
        max = v;
        sum += count[v] * (uint64_t)v;
    }
    double all = (double)x->bytes;
    yk_buf_format(out, "  values %d .. %d, mean %.3f, %.1f %% zeros\n", min, max, (double)sum / all,
                  100 * (double)count[0] / all);
    if (x->ndim != 1)
        return;
    yk_buf_text(out, "  class       count   share\n");
    for (int v = min; v <= max; v++)
        if (count[v] > 0)
            yk_buf_format(out, "  %5d  %10llu  %4.1f %%\n", v, (unsigned long long)count[v],
                          100 * (double)count[v] / all);
}

static yk_code describe(const char *path, struct yk_buf *out, struct yk_error *e)
{
    struct yk_idx x;
    char size[24];
    yk_code rc = yk_idx_read(path, &x, e);
    if (rc != YK_OK)
        return rc;
    const char *slash = strrchr(path, '/');
    yk_buf_format(out, "%s: IDX%s, %s, ", slash ? slash + 1 : path, x.gzip ? " (gzipped)" : "",
                  yk_idx_type_name(x.type));
    for (int i = 0; i < x.ndim; i++)
        yk_buf_format(out, "%s%u", i > 0 ? "x" : "", x.dim[i]);
    yk_buf_format(out, ", %s of elements\n", yk_size_text(x.bytes, size));
    if (x.type == 0x08)
        describe_values(&x, out);
    yk_idx_release(&x);
    return YK_OK;
}

const struct yk_format_ops yk_format_idx = {
    .name = "idx",
    .what = "IDX (MNIST and its kin), plain or gzipped",
    .sniff = sniff,
    .describe = describe,
};
