/* rows.c - opens sets of rows: finds out what is meant, uses the cache if it is there and still true, makes it if not.
 *
 * A cache is true if the sizes and times of change of its inputs are those that its head remembers, and no more rows were left out than the caller
 * tolerates. One that is not, or that is damaged, is made again without a word. Of several processes that want the same one, one makes it
 * under a lock beside it and the others wait; where the folder cannot be written the rows stay in memory, and `note` says why. What cannot
 * be read twice (standard input, pipes) goes through a file without a name, so that memory stays bounded all the same.
 * THREADS: no state. */
#include "data/rows.h"

#include "data/inputs.h"
#include "data/read.h"
#include "data/shelf.h"
#include "data/stream.h"
#include "data/synth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SYNTH_ROW = 500 }; /* bytes of text that a made-up row would be */

struct opening { /* what yk_rows_open is doing */
    const char *what;
    const struct yk_reading *how;
    struct yk_inputs in;
    struct yk_synth *synth; /* NULL: files */
    uint64_t synth_rows;
    struct yk_cache_input synth_stamp;
};

void yk_rows_close(struct yk_rows *r)
{
    if (r == NULL)
        return;
    if (r->hold != NULL) {
        if (r->hold->map != NULL)
            munmap(r->hold->map, r->hold->length);
        for (uint32_t i = 0; i < r->hold->memories; i++)
            free(r->hold->memory[i]);
        free(r->hold->memory);
    }
    free(r->hold);
    free(r->block);
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
    yk_fail(e, YK_DATA, "'%s'%s has no rows; expected at least one", yk_stream_name(path),
            o->in.n > 1 ? " and the files after it" : "");
    if (strcmp(path, "-") == 0)
        yk_hint(e, "what was read from standard input once is gone: pipe it in again, or keep it "
                   "by 'yoke data convert - FILE.rows'");
    return YK_DATA;
}

/* Read everything. path: the cache to make; NULL: none. */
static yk_code build(const struct opening *o, const char *path, bool unnamed, struct yk_rows **out,
                     struct yk_error *e)
{
    struct yk_builder *b;
    yk_code rc = yk_builder_open(&b, path, unnamed, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_read((const char *const *)o->in.path, o->in.n, o->synth, o->synth_rows,
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

/* The cache as it is, if it may be used. */
static bool reuse(const struct opening *o, const char *path, struct yk_rows **out)
{
    uint32_t n;
    const struct yk_cache_input *input = stamps(o, &n);
    if (yk_cache_open(out, path, YK_CACHE_OURS, input, n, o->how->threads, NULL) != YK_OK)
        return false;
    if ((*out)->bad <= o->how->skip_bad) {
        yk_shelf_used(path);
        return true;
    }
    yk_rows_close(*out); /* reading again tells which row it is */
    return false;
}

/* The folder and the name of the cache; false: there can be none, and *e says why. */
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
    char path[YK_PATH_MAX];
    struct yk_error why = {0};
    if (!find_cache(o, path, &why)) {
        if (path[0] != '\0' && reuse(o, path, out)) /* a folder that we may only read */
            return YK_OK;
        yk_code rc = build(o, NULL, false, out, e);
        if (rc == YK_OK)
            yk_rows_note(*out, why.text);
        return rc;
    }
    if (reuse(o, path, out))
        return YK_OK;
    int lock = yk_shelf_lock(path, &why);
    if (lock < 0) {
        yk_code rc = build(o, NULL, false, out, e);
        if (rc == YK_OK)
            yk_rows_note(*out, why.text);
        return rc;
    }
    yk_code rc = YK_OK;
    if (!reuse(o, path, out)) { /* nobody has made it while we waited */
        yk_shelf_sweep(path);
        rc = build(o, path, false, out, e);
        yk_shelf_trim(path, yk_shelf_room(path));
    }
    close(lock);
    return rc;
}

/* What cannot be read again: by way of a file without a name, if there is a place for one. */
static yk_code open_once(struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    struct yk_error why = {0};
    bool place = !o->how->no_cache && yk_shelf_place(path, &why) == YK_OK;
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
        fd >= 0 &&
        yk_cache_sniff(head, (size_t)(read(fd, head, sizeof head) == sizeof head) * sizeof head);
    if (fd >= 0)
        close(fd);
    return yes;
}

/* A cache that the user named. Its keys are what they are. */
static yk_code open_named(const struct opening *o, struct yk_rows **out, struct yk_error *e)
{
    if (o->in.n != 1)
        return yk_fail(e, YK_USAGE, "'%s' are several files; expected one cache", o->what);
    if (!o->in.regular)
        return yk_fail(e, YK_USAGE,
                       "'%s' cannot be a cache: it is mapped, so it has to be a plain file",
                       yk_stream_name(o->in.path[0]));
    yk_code rc = yk_cache_open(out, o->in.path[0], YK_CACHE_FOREIGN, NULL, 0, o->how->threads, e);
    if (rc == YK_OK && o->how->hash_bits > 0 &&
        (*out)->features > (uint64_t)1 << o->how->hash_bits) {
        rc = yk_fail(
            e, YK_USAGE,
            "'%s' is a cache with keys up to %llu, which are not hashed to %u bits any more",
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
        return yk_fail(e, YK_USAGE, "'%s' are more rows than a set can have; expected at most %u",
                       what, YK_ROWS_MAX);
    rc = yk_synth_open(&o.synth, o.synth_rows, features, seed, e);
    if (rc != YK_OK)
        return rc;
    /* A made-up set has no file that could change, so its cache is true for good: its name says everything but how yoke makes it. */
    o.synth_stamp =
        (struct yk_cache_input){.path = seed, .size = o.synth_rows, .changed = (int64_t)features};
    rc = o.how->no_cache ? build(&o, NULL, false, out, e) : open_cached(&o, out, e);
    yk_synth_close(o.synth);
    return rc;
}

bool yk_rows_sniff(const char *what, const struct yk_reading *how)
{
    struct yk_inputs in;
    uint64_t rows, features, seed;
    if (yk_synth_name(what, &rows, &features, &seed))
        return true;
    if (yk_inputs_find(&in, what, NULL) != YK_OK)
        return false;
    bool yes = !in.regular ||
               (how != NULL &&
                how->format != NULL); /* a pipe must not be tasted: it would miss the bite */
    struct yk_stream *s;
    if (!yes && yk_stream_open(&s, in.path[0], NULL) == YK_OK) {
        uint8_t head[YK_SNIFF];
        size_t n;
        yes = yk_stream_take(s, head, sizeof head, &n, NULL) == YK_OK &&
              (yk_cache_sniff(head, n) || yk_rows_format_sniff(head, n) != NULL);
        yk_stream_close(s);
    }
    yk_inputs_release(&in);
    return yes;
}
