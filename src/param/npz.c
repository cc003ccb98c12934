/* npz.c - NumPy archives: a zip file of .npy files without compression. Numbers are little-endian.
 *
 *     .npy  93 'N' 'U' 'M' 'P' 'Y' 01 00 | u16 length of the header
 *           header: a Python dict, spaces, '\n'; it ends at a multiple of 64
 *           the floats in C order
 *
 *     .zip  per file, its entry:
 *               u32 04034b50 | u16 version 20, flags 0, method 0, time, date
 *               u32 crc32, size, size | u16 length of the name, 0 | name | the bytes
 *           then per file, its line in the directory:
 *               u32 02014b50 | u16 made by 20, version 20, flags, method, time, date
 *               u32 crc32, size, size | u16 length of the name, 0, 0, 0, 0
 *               u32 0, offset of the entry | name
 *           at the end:
 *               u32 06054b50 | u16 0, 0, files, files | u32 size of directory, its offset | u16 0
 *
 * LIMITS: offsets are 32 bits, so an archive stays below 4 GB. */
#include "param/npz.h"

#include "base/buf.h"
#include "base/file.h"

#include <stdio.h>
#include <zlib.h>

enum {
    VERSION = 20,
    EPOCH_DATE = 0x21 /* 1 January 1980, so that equal models give equal files */
};

static void u16(struct yk_buf *b, unsigned v)
{
    const unsigned char bytes[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
    yk_buf_add(b, bytes, 2);
}

static void u32(struct yk_buf *b, uint64_t v)
{
    u16(b, (unsigned)(v & 0xffff));
    u16(b, (unsigned)(v >> 16 & 0xffff));
}

static void npy_header(struct yk_buf *b, const struct yk_view *v)
{
    struct yk_buf dict = {0};
    yk_buf_text(&dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; i < v->ndim; i++)
        yk_buf_format(&dict, "%llu,%s", (unsigned long long)v->shape[i],
                      i + 1 < v->ndim ? " " : "");
    yk_buf_text(&dict, "), }");
    while ((10 + dict.len + 1) % 64 != 0)
        yk_buf_text(&dict, " ");
    yk_buf_text(&dict, "\n");
    yk_buf_add(b, "\x93NUMPY\x01\x00", 8);
    u16(b, (unsigned)dict.len);
    yk_buf_add(b, dict.data, dict.len);
    b->failed |= dict.failed;
    yk_buf_release(&dict);
}

/* The fields that an entry and its line in the directory have in common. */
static void zip_fields(struct yk_buf *b, uint32_t crc, uint64_t size, size_t name)
{
    u16(b, VERSION);
    u16(b, 0);
    u16(b, 0);
    u16(b, 0);
    u16(b, EPOCH_DATE);
    u32(b, crc);
    u32(b, size);
    u32(b, size);
    u16(b, (unsigned)name);
    u16(b, 0);
}

static yk_code write_view(struct yk_outfile *f, const struct yk_params *p, const struct yk_view *v,
                          uint64_t *offset, struct yk_buf *directory, struct yk_error *e)
{
    struct yk_buf npy = {0}, entry = {0};
    char name[YK_NAME + 8];
    const float *data = p->flat + v->at;
    size_t bytes = v->count * sizeof(float),
           len = (size_t)snprintf(name, sizeof name, "%s.npy", v->name);
    npy_header(&npy, v);
    uint32_t crc = (uint32_t)crc32_z(crc32_z(0, (const unsigned char *)npy.data, npy.len),
                                     (const unsigned char *)data, bytes);
    uint64_t size = npy.len + bytes;
    u32(&entry, 0x04034b50);
    zip_fields(&entry, crc, size, len);
    yk_buf_add(&entry, name, len);
    yk_buf_add(&entry, npy.data, npy.len);

    u32(directory, 0x02014b50);
    u16(directory, VERSION);
    zip_fields(directory, crc, size, len);
    u16(directory, 0);
    u16(directory, 0);
    u16(directory, 0);
    u32(directory, 0);
    u32(directory, *offset);
    yk_buf_add(directory, name, len);

    yk_code rc = npy.failed || entry.failed ? yk_fail_memory(e, entry.len)
                                            : yk_outfile_write(f, entry.data, entry.len, e);
    if (rc == YK_OK)
        rc = yk_outfile_write(f, data, bytes, e);
    *offset += entry.len + bytes;
    yk_buf_release(&npy);
    yk_buf_release(&entry);
    return rc;
}

yk_code yk_npz_write(const char *path, const struct yk_params *p, struct yk_error *e)
{
    struct yk_outfile f;
    struct yk_buf directory = {0};
    uint64_t offset = 0;
    if (p->weights >= UINT32_MAX / sizeof(float) - (1 << 20))
        return yk_fail(e, YK_USAGE, "the model is too big for an .npz file: %zu floats",
                       p->weights);
    yk_code rc = yk_outfile_open(&f, path, e);
    if (rc != YK_OK)
        return rc;
    for (size_t i = 0; i < p->views && rc == YK_OK; i++)
        rc = write_view(&f, p, &p->view[i], &offset, &directory, e);
    uint64_t size = directory.len;
    u32(&directory, 0x06054b50);
    u16(&directory, 0);
    u16(&directory, 0);
    u16(&directory, (unsigned)p->views);
    u16(&directory, (unsigned)p->views);
    u32(&directory, size);
    u32(&directory, offset);
    u16(&directory, 0);
    if (rc == YK_OK && directory.failed)
        rc = yk_fail_memory(e, directory.len);
    if (rc == YK_OK)
        rc = yk_outfile_write(&f, directory.data, directory.len, e);
    yk_buf_release(&directory);
    if (rc == YK_OK)
        return yk_outfile_commit(&f, e);
    yk_outfile_abort(&f);
    return rc;
}
