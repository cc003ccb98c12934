/* rows.c - opens sets of rows: finds out what is meant, uses its cache if that is valid, else makes
 * it.
 *
 * A cache is valid if its head names the inputs with their present sizes and times of change, and
 * no more rows were skipped than the caller tolerates. An invalid or damaged cache is silently made
 * again. If several processes want the same one, one makes it under a lock and the others wait. If
 * the folder cannot be written the rows stay in memory, and `note` says why. Input that cannot be
 * read twice (standard input, pipes) goes through a file without a name, which bounds the memory.
 * THREADS: no state. */
#include "data/rows/rows.h"

#include "data/rows/cache_dir.h"
#include "data/rows/inputs.h"
#include "data/rows/rows_reader.h"
#include "data/rows/stream.h"
#include "data/rows/synth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYNTH_ROW = 500 }; /* about the bytes of a made-up row as text */

struct opening { /* the work of yk_rows_open */
    const char *what;
    const struct yk_reading *how;
    struct yk_inputs in;
    const struct yk_synth *synth; /* NULL: files */
    uint64_t synth_rows;
    struct yk_cache_input synth_stamp;
};

void yk_rows_close(struct yk_rows *r)
{
    if (r == NULL)
        return;
    yk_rows_clear(r);
    free(r);
}

static const struct yk_cache_input *stamps(const struct opening *o, uint32_t *n)
{
    *n = o->synth ? 1 : o->in.regular ? o->in.n : 0;
    return o->synth ? &o->synth_stamp : o->in.stamp;
}

static yk_code no_rows(const struct opening *o, struct yk_error *e)
{
    const char *path = o->in.path[0];
    yk_fail(e, YK_DATA, "'%s' %s no rows; expected at least one", yk_stream_name(path),
            o->in.n > 1 ? "and the files after it have" : "has");
    if (strcmp(path, "-") == 0)
        yk_hint(
            e, "standard input can be read only once: pipe it in again, or keep it with 'yoke data "
               "convert - FILE.rows'");
    return YK_DATA;
}

/* Reads everything. `path` is the cache to make; NULL: none. */
static yk_code build(const struct opening *o, const char *path, bool unnamed, struct yk_rows **out,
                     struct yk_error *e)
{
    struct yk_builder *b;
    yk_code rc = yk_builder_open(&b, path, unnamed, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_rows_read((const char *const *)o->in.path, o->in.n, o->synth, o->synth_rows,
                      o->synth ? o->synth_rows * SYNTH_ROW : o->in.bytes, o->how, b, e);
    if (rc == YK_OK) {
        uint32_t n;
        const struct yk_cache_input *input = stamps(o, &n);
        rc = yk_builder_finish(b, input, n, out, e);
        if (rc == YK_DATA && o->in.n > 0)
            rc = no_rows(o, e);
    }
    yk_builder_close(b);
    return rc;
}

/* Opens the cache if it is valid. */
static bool reuse(const struct opening *o, const char *path, struct yk_rows **out)
{
    uint32_t n;
    const struct yk_cache_input *input = stamps(o, &n);
    if (yk_cache_open(out, path, YK_CACHE_OURS, input, n, o->how->threads, NULL) != YK_OK)
        return false;
    if ((*out)->bad <= o->how->skip_bad) {
        yk_cache_dir_used(path);
        return true;
    }
    yk_rows_close(*out); /* reading the input again will say which row is bad */
    return false;
}

/* The path of the cache, in a folder that exists. False: there can be no cache, and *e says why. */
static bool find_cache(const struct opening *o, char path[YK_PATH_MAX], struct yk_error *e)
{
    char folder[YK_PATH_MAX];
    if (yk_inputs_cache(o->synth ? NULL : &o->in, o->what, o->how, path, e) != YK_OK)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return yk_mkdirs(folder, e) == YK_OK;
}

static yk_code open_cached(const struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    char path[YK_PATH_MAX] = "";
    struct yk_error why = {0};
    bool place = find_cache(o, path, &why);
    if (path[0] != '\0' && reuse(o, path, out)) /* even in a folder that may only be read */
        return YK_OK;
    int lock = place ? yk_cache_dir_lock(path, &why) : -1;
    if (lock < 0) {
        yk_code rc = build(o, NULL, false, out, e);
        if (rc == YK_OK)
            yk_rows_note(*out, why.text);
        return rc;
    }
    yk_code rc = YK_OK;
    if (!reuse(o, path, out)) { /* no other process has made it meanwhile */
        yk_cache_dir_sweep(path);
        rc = build(o, path, false, out, e);
        yk_cache_dir_trim(path, yk_cache_dir_room(path));
    }
    close(lock);
    return rc;
}

/* Reads input that cannot be read again, if possible through a file without a name. */
static yk_code open_once(const struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    struct yk_error why = {0};
    bool place = !o->how->no_cache && yk_cache_dir_unnamed(path, &why) == YK_OK;
    yk_code rc = build(o, place ? path : NULL, true, out, e);
    if (rc == YK_OK && (*out)->note[0] == '\0' && !o->how->no_cache)
        yk_rows_note(*out, place ? "the input cannot be read twice" : why.text);
    return rc;
}

/* Is the only input a cache itself? */
static bool is_cache(const struct yk_inputs *in)
{
    char head[8];
    int fd = in->n == 1 && in->regular ? open(in->path[0], O_RDONLY | O_CLOEXEC) : -1;
    bool yes =
        fd >= 0 && read(fd, head, sizeof head) == sizeof head && yk_cache_sniff(head, sizeof head);
    if (fd >= 0)
        close(fd);
    return yes;
}

/* Opens a cache that the user named, with the keys that it has. */
static yk_code open_named(const struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    if (o->in.n != 1)
        return yk_fail(e, YK_USAGE, "'%s' names several files; expected one cache", o->what);
    if (!o->in.regular)
        return yk_fail(e, YK_USAGE,
                       "'%s' cannot be a cache: it is mapped, so it has to be a plain file",
                       yk_stream_name(o->in.path[0]));
    yk_code rc = yk_cache_open(out, o->in.path[0], YK_CACHE_FOREIGN, NULL, 0, o->how->threads, e);
    if (rc == YK_OK && o->how->hash_bits > 0 &&
        (*out)->features > (uint64_t)1 << o->how->hash_bits) {
        rc =
            yk_fail(e, YK_USAGE,
                    "'%s' is a cache with keys up to %llu, and a cache cannot be hashed to %u bits",
                    o->in.path[0], (unsigned long long)(*out)->features - 1, o->how->hash_bits);
        yk_hint(e, "convert the original again, with --hash-bits %u", o->how->hash_bits);
        yk_rows_close(*out);
    }
    return rc;
}

static yk_code open_files(struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    yk_code rc = yk_inputs_find(&o->in, o->what, e);
    if (rc != YK_OK)
        return rc;
    if (is_cache(&o->in) || (o->how->format != NULL && strcmp(o->how->format, "cache") == 0))
        rc = open_named(o, out, e);
    else if (!o->in.regular)
        rc = open_once(o, out, e);
    else if ((rc = yk_inputs_stamp(&o->in, e)) == YK_OK)
        rc = o->how->no_cache ? build(o, NULL, false, out, e) : open_cached(o, out, e);
    yk_inputs_release(&o->in);
    return rc;
}

static yk_code check(const struct yk_reading *how, struct yk_error *e)
{
    char names[200];
    if (how->format != NULL && strcmp(how->format, "cache") != 0 &&
        yk_rows_format_find(how->format) == NULL) {
        yk_fail(e, YK_USAGE, "no format of rows is called '%s'", how->format);
        yk_hint(e, "the formats are %s", yk_rows_format_names(names, false));
        return YK_USAGE;
    }
    if (how->hash_bits > 31)
        return yk_fail(e, YK_USAGE, "cannot hash keys to %u bits; expected at most 31",
                       how->hash_bits);
    return YK_OK;
}

yk_code yk_rows_open(struct yk_rows **out, const char *what, const struct yk_reading *how,
                     struct yk_error *e)
{
    static const struct yk_reading plain;
    struct opening o = {.what = what, .how = how ? how : &plain};
    uint64_t features, seed;
    yk_code rc = check(o.how, e);
    if (rc != YK_OK)
        return rc;
    if (!yk_synth_name(what, &o.synth_rows, &features, &seed))
        return open_files(&o, out, e);
    if (o.synth_rows > YK_ROWS_MAX)
        return yk_fail(e, YK_USAGE,
                       "'%s' asks for more rows than a set can have; expected at most %u", what,
                       YK_ROWS_MAX);
    struct yk_synth *synth;
    rc = yk_synth_open(&synth, o.synth_rows, features, seed, e);
    if (rc != YK_OK)
        return rc;
    o.synth = synth;
    /* The cache of made-up rows is always valid: its name says how they are made. */
    o.synth_stamp =
        (struct yk_cache_input){.path = seed, .size = o.synth_rows, .changed = (int64_t)features};
    rc = o.how->no_cache ? build(&o, NULL, false, out, e) : open_cached(&o, out, e);
    yk_synth_close(synth);
    return rc;
}

yk_code yk_synth_rows(struct yk_rows **out, const struct yk_synth *s, uint64_t rows,
                      const struct yk_reading *how, struct yk_error *e)
{
    const struct opening o = {.how = how, .synth = s, .synth_rows = rows};
    return open_once(&o, out, e);
}

/* The format of a plain file by its first bytes; NULL: unknown. */
static const char *sniff_file(const char *path)
{
    uint8_t head[YK_SNIFF];
    struct yk_stream *s;
    const char *name = NULL;
    size_t n;
    if (yk_stream_open(&s, path, NULL) != YK_OK)
        return NULL;
    if (yk_stream_take(s, head, sizeof head, &n, NULL) == YK_OK) {
        const struct yk_rows_format *f = yk_rows_format_sniff(head, n);
        name = yk_cache_sniff(head, n) ? "cache" : f != NULL ? f->name : NULL;
    }
    yk_stream_close(s);
    return name;
}

const char *yk_rows_format_of(const char *what, const struct yk_reading *how)
{
    uint64_t rows, features, seed;
    struct yk_inputs in;
    if (yk_synth_name(what, &rows, &features, &seed))
        return "synthetic";
    if (how != NULL && how->format != NULL)
        return how->format;
    if (yk_inputs_find(&in, what, NULL) != YK_OK)
        return NULL;
    const char *name = in.regular ? sniff_file(in.path[0]) : NULL;
    yk_inputs_release(&in);
    return name;
}

bool yk_rows_sniff(const char *what, const struct yk_reading *how)
{
    uint64_t rows, features, seed;
    struct yk_inputs in;
    if (yk_synth_name(what, &rows, &features, &seed))
        return true;
    if (yk_inputs_find(&in, what, NULL) != YK_OK)
        return false;
    /* A pipe must not be looked at: the bytes would be lost. */
    bool yes = !in.regular || (how != NULL && how->format != NULL) || sniff_file(in.path[0]);
    yk_inputs_release(&in);
    return yes;
}
