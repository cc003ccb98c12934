/* inputs.c - see inputs.h. Changes are told by ctime: mtime can be set, and is set when an archive
 * is unpacked or a file is copied with its times.
 * THREADS: no state.
 * LIMITS: a name with a comma in it is one file only if that file exists. Files of a folder whose
 * names begin with '.' or '_' are ignored: they are half-written, or marks of other programs. */
#include "data/rows/inputs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define TICK 20000000 /* ns: the coarsest clock of a file system that we know */
#define NS 1000000000

static yk_code add(struct yk_inputs *in, const char *path, size_t n, struct yk_error *e)
{
    char **more = realloc(in->path, (in->n + (size_t)1) * sizeof *more);
    if (more == NULL)
        return yk_fail_memory(e, (in->n + (size_t)1) * sizeof *more);
    in->path = more;
    in->path[in->n] = strndup(path, n);
    if (in->path[in->n] == NULL)
        return yk_fail_memory(e, n + 1);
    in->n++;
    return YK_OK;
}

static int wanted(const struct dirent *d)
{
    return d->d_name[0] != '.' && d->d_name[0] != '_';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* unlike alphasort, independent of the locale */
}

static yk_code add_folder(struct yk_inputs *in, const char *folder, struct yk_error *e)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, wanted, by_name);
    if (n < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", folder);
    yk_code rc = YK_OK;
    uint32_t before = in->n;
    for (int i = 0; i < n; i++) {
        char path[YK_PATH_MAX];
        struct stat st;
        if (rc == YK_OK)
            rc = yk_path(path, e, "%s/%s", folder, entry[i]->d_name);
        if (rc == YK_OK && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            rc = add(in, path, strlen(path), e);
        free(entry[i]);
    }
    free(entry);
    if (rc == YK_OK && in->n == before)
        rc = yk_fail(e, YK_DATA, "the folder '%s' holds no files", folder);
    return rc;
}

static yk_code add_one(struct yk_inputs *in, const char *text, size_t n, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    struct stat st;
    yk_code rc = yk_path(path, e, "%.*s", (int)n, text);
    if (rc != YK_OK)
        return rc;
    if (n == 0)
        return yk_fail(e, YK_DATA, "the name of a data file is empty");
    if (strcmp(path, "-") == 0) {
        in->regular = false;
        return add(in, path, n, e);
    }
    if (stat(path, &st) != 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    if (S_ISDIR(st.st_mode))
        return add_folder(in, path, e);
    in->regular &= S_ISREG(st.st_mode);
    return add(in, path, n, e);
}

yk_code yk_inputs_find(struct yk_inputs *in, const char *what, struct yk_error *e)
{
    *in = (struct yk_inputs){.regular = true};
    yk_code rc = YK_OK;
    if (yk_exists(what)) {
        rc = add_one(in, what, strlen(what), e);
    } else {
        for (const char *p = what; rc == YK_OK; p++) {
            size_t n = strcspn(p, ",");
            rc = add_one(in, p, n, e);
            p += n;
            if (*p == '\0')
                break;
        }
    }
    if (rc != YK_OK)
        yk_inputs_release(in);
    return rc;
}

void yk_inputs_release(struct yk_inputs *in)
{
    for (uint32_t i = 0; i < in->n; i++)
        free(in->path[i]);
    free(in->path);
    free(in->stamp);
    *in = (struct yk_inputs){0};
}

static int64_t in_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

yk_code yk_inputs_stamp(struct yk_inputs *in, struct yk_error *e)
{
    in->stamp = calloc(in->n, sizeof *in->stamp);
    if (in->stamp == NULL)
        return yk_fail_memory(e, in->n * sizeof *in->stamp);
    in->bytes = 0;
    for (uint32_t i = 0; i < in->n; i++) {
        struct stat st;
        struct timespec now;
        if (stat(in->path[i], &st) != 0)
            return yk_fail_errno(e, YK_DATA, "cannot open '%s'", in->path[i]);
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t age = in_ns(now) - in_ns(st.st_ctim);
        if (age >= 0 && age < TICK) {
            const struct timespec pause = {.tv_nsec = TICK - age};
            nanosleep(&pause, NULL);
            if (stat(in->path[i], &st) != 0)
                return yk_fail_errno(e, YK_DATA, "cannot open '%s'", in->path[i]);
        }
        char *real = realpath(in->path[i], NULL);
        const char *name = real == NULL ? in->path[i] : real;
        in->stamp[i] = (struct yk_cache_input){.path = XXH3_64bits(name, strlen(name)),
                                               .size = (uint64_t)st.st_size,
                                               .changed = in_ns(st.st_ctim)};
        in->bytes += (uint64_t)st.st_size;
        free(real);
    }
    return YK_OK;
}

/* Hashes a string or NULL, so that different lists of strings have different hashes. */
static uint64_t mix(uint64_t seed, const char *text)
{
    return XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) + 1 : 0, seed);
}

yk_code yk_inputs_cache(const struct yk_inputs *in, const char *what, const struct yk_reading *how,
                        char path[YK_PATH_MAX], struct yk_error *e)
{
    char folder[YK_PATH_MAX], name[64];
    uint64_t h = how->hash_bits;
    h = mix(h, how->format);
    h = mix(h, how->label);
    h = mix(h, how->index);
    h = mix(h, how->value);
    if (in == NULL) /* made by yoke, and another version may make other rows */
        h = mix(mix(h, what), YK_VERSION);
    else
        for (uint32_t i = 0; i < in->n; i++)
            h = XXH3_64bits_withSeed(&in->stamp[i].path, sizeof in->stamp[i].path, h);
    const char *first = in == NULL ? what : in->path[0], *slash = strrchr(first, '/');
    size_t n = 0;
    for (const char *p = slash ? slash + 1 : first; *p != '\0' && n < sizeof name - 1; p++)
        name[n++] = (char)((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
                                   (*p >= 'A' && *p <= 'Z') || *p == '.'
                               ? *p
                               : '-');
    name[n] = '\0';
    yk_code rc = yk_cache_dir(folder, e);
    return rc == YK_OK
               ? yk_path(path, e, "%s/rows/%s-%016llx.rows", folder, name, (unsigned long long)h)
               : rc;
}
