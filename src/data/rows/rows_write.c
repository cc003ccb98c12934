/* rows_write.c - writes rows to files: as a cache, or in one of the formats of rows_format.h.
 *
 * Several threads turn a block each into bytes, and the blocks are written in order. A compressed
 * file is one gzip member of *stretches*, which the threads deflate independently: a stretch ends
 * at a byte (a sync flush), so stretches can be joined, and their checksums combine.
 *
 *     1f 8b 08 00 00 00 00 00 00 03 | stretch ... | 03 00 (an empty last stretch) |
 *     u32le crc32, u32le length of the uncompressed bytes
 *
 * THREADS: the set is only read. */
#include "base/buf.h"
#include "base/team.h"
#include "data/rows/cache.h"
#include "data/rows/rows_format.h"

#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST_THREADS = 64, LEVEL = 4, RAW_DEFLATE = -15, MEMORY_LEVEL = 8 };

struct writing {
    const struct yk_rows *rows;
    const struct yk_rows_format *format;
    const struct yk_reading *how;
    bool gzip;
    uint32_t from; /* the block of the first stretch */
    struct stretch {
        struct yk_buf text, packed;
        uint32_t crc; /* of `text` */
        bool failed;
    } stretch[MOST_THREADS];
};

static bool pack(struct stretch *s)
{
    z_stream z = {0};
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, RAW_DEFLATE, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    yk_buf_clear(&s->packed);
    s->crc = (uint32_t)crc32_z(0, (const Bytef *)s->text.data, s->text.len);
    char out[1 << 16];
    size_t left = s->text.len;
    z.next_in = (Bytef *)s->text.data;
    do {
        if (z.avail_in == 0) {
            z.avail_in = left < UINT_MAX ? (uInt)left : UINT_MAX;
            left -= z.avail_in;
        }
        z.next_out = (Bytef *)out;
        z.avail_out = sizeof out;
        deflate(&z, left == 0 ? Z_SYNC_FLUSH : Z_NO_FLUSH);
        yk_buf_add(&s->packed, out, sizeof out - z.avail_out);
    } while (z.avail_out == 0 || z.avail_in > 0 || left > 0);
    deflateEnd(&z);
    return !s->packed.failed;
}

static void write_block(void *arg, unsigned i)
{
    struct writing *w = arg;
    struct stretch *s = &w->stretch[i];
    uint64_t row = (uint64_t)(w->from + i) * YK_BLOCK_ROWS, end = row + YK_BLOCK_ROWS;
    end = end < w->rows->rows ? end : w->rows->rows;
    yk_buf_clear(&s->text);
    for (; row < end && !s->text.failed; row++) {
        struct yk_row x = yk_row_at(w->rows, row);
        w->format->write(&s->text, &x, w->how);
    }
    s->failed = s->text.failed || (w->gzip && !pack(s));
}

static yk_code write_all(struct writing *w, struct yk_outfile *o, struct yk_team *team,
                         unsigned threads, struct yk_error *e)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    uint8_t foot[10] = {3, 0};
    uint32_t crc = 0, length = 0;
    double told = 0;
    yk_code rc = w->gzip ? yk_outfile_write(o, head, sizeof head, e) : YK_OK;
    for (w->from = 0; w->from < w->rows->blocks && rc == YK_OK; w->from += threads) {
        unsigned n = w->rows->blocks - w->from < threads ? w->rows->blocks - w->from : threads;
        yk_team_run(team, n, write_block, w);
        for (unsigned i = 0; i < n && rc == YK_OK; i++) {
            struct stretch *s = &w->stretch[i];
            const struct yk_buf *bytes = w->gzip ? &s->packed : &s->text;
            rc = s->failed ? yk_fail_memory(e, s->text.len + s->packed.len)
                           : yk_outfile_write(o, bytes->data, bytes->len, e);
            if (w->gzip)
                crc = (uint32_t)crc32_combine(crc, s->crc, (z_off_t)s->text.len);
            length += (uint32_t)s->text.len;
        }
        if (yk_reading_due(w->how, &told)) {
            char line[100];
            uint64_t done = (uint64_t)(w->from + n) * YK_BLOCK_ROWS, all = w->rows->rows;
            snprintf(line, sizeof line, "%llu of %llu rows are written",
                     (unsigned long long)(done < all ? done : all), (unsigned long long)all);
            w->how->say(w->how->say_arg, line);
        }
    }
    crc = htole32(crc);
    length = htole32(length);
    memcpy(foot + 2, &crc, sizeof crc);
    memcpy(foot + 6, &length, sizeof length);
    return rc == YK_OK && w->gzip ? yk_outfile_write(o, foot, sizeof foot, e) : rc;
}

static yk_code write_cache(const struct yk_rows *r, const char *path, struct yk_error *e)
{
    struct yk_cache_writer w;
    yk_code rc = yk_cache_create(&w, path, false, e);
    if (rc != YK_OK)
        return rc;
    for (uint32_t i = 0; i < r->blocks && rc == YK_OK; i++) {
        uint64_t left = r->rows - (uint64_t)i * YK_BLOCK_ROWS;
        struct yk_block_info x =
            yk_block_describe(&r->block[i], left < YK_BLOCK_ROWS ? (uint32_t)left : YK_BLOCK_ROWS);
        rc = yk_cache_append(&w, &r->block[i], &x, e);
    }
    /* Then writing failed for this reason, whatever the system said. */
    if (yk_rows_intact(r, NULL) != YK_OK)
        rc = yk_rows_intact(r, e);
    if (rc == YK_OK)
        rc = yk_cache_finish(&w, r, NULL, 0, e);
    if (rc == YK_OK)
        rc = yk_outfile_commit(&w.file, e);
    yk_cache_abort(&w);
    return rc;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static yk_code write_format(const struct yk_rows *r, const char *path,
                            const struct yk_rows_format *format, const struct yk_reading *how,
                            struct yk_error *e)
{
    static const struct yk_reading plain;
    struct yk_outfile o = {.fd = STDOUT_FILENO, .path = "standard output"};
    struct yk_team *team = NULL;
    bool standard = strcmp(path, "-") == 0;
    unsigned threads = how && how->threads ? how->threads : yk_cpus();
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    threads = threads < r->blocks ? threads : r->blocks;
    struct writing *w = calloc(1, sizeof *w);
    if (w == NULL)
        return yk_fail_memory(e, sizeof *w);
    w->rows = r;
    w->format = format;
    w->how = how ? how : &plain;
    w->gzip = ends_in(path, ".gz");
    yk_code rc = threads > 1 ? yk_team_open(&team, threads, e) : YK_OK;
    if (rc != YK_OK)
        goto out_writing;
    if (!standard)
        rc = yk_outfile_open(&o, path, e);
    if (rc != YK_OK)
        goto out_team;
    rc = write_all(w, &o, team, threads, e);
    if (rc == YK_OK)
        rc = yk_rows_intact(r, e);
    if (!standard && rc == YK_OK)
        rc = yk_outfile_commit(&o, e);
    else if (!standard)
        yk_outfile_abort(&o);
out_team:
    yk_team_close(team);
    for (unsigned i = 0; i < MOST_THREADS; i++) {
        yk_buf_release(&w->stretch[i].text);
        yk_buf_release(&w->stretch[i].packed);
    }
out_writing:
    free(w);
    return rc;
}

yk_code yk_rows_write(const struct yk_rows *r, const char *path, const char *format,
                      const struct yk_reading *how, struct yk_error *e)
{
    if (strcmp(format, "cache") == 0) {
        if (strcmp(path, "-") == 0 || ends_in(path, ".gz"))
            return yk_fail(
                e, YK_USAGE,
                "cannot write a cache to '%s': it is mapped, so it has to be a plain file", path);
        return write_cache(r, path, e);
    }
    char names[200];
    const struct yk_rows_format *f = yk_rows_format_find(format);
    if (f == NULL || f->write == NULL) {
        yk_fail(e, YK_USAGE,
                f ? "cannot write '%s': yoke only reads that format"
                  : "no format of rows is called '%s'",
                format);
        yk_hint(e, "the formats that can be written are %s", yk_rows_format_names(names, true));
        return YK_USAGE;
    }
    return write_format(r, path, f, how, e);
}
