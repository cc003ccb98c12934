/* safetensors.c - named float32 arrays in one file, in a format that other tools read too.
 *
 *     offset    bytes
 *     0         8        N, length of the header, u64 little-endian
 *     8         N        header: one JSON object, padded with spaces so that N is a multiple of 8
 *     8 + N     the rest tensor data, contiguous, without holes
 *
 *     {"__metadata__":{"step":"100","xxh3":"0123456789abcdef","xxh3_header":"..."},
 *      "softmax.bias":{"dtype":"F32","shape":[10],"data_offsets":[0,40]},
 *      "softmax.weight":{"dtype":"F32","shape":[784,10],"data_offsets":[40,31400]}}
 *
 * Offsets are [begin, end) in bytes from the start of the data; values are little-endian,
 * row-major. We write metadata first, then tensors sorted by name, and their data in the same
 * order; we read any order. The metadata hold two checksums, XXH3-64 as 16 hex digits: "xxh3" of
 * the data, and "xxh3_header" of the N bytes of the header with its own digits taken as zeros, so a
 * flipped bit is noticed everywhere. If the metadata "format" begins with "yoke-", both must be
 * present, so a flip in their own names does not disable them. A file may be hostile: every number
 * in it is checked against the length of the file before it is used. */
#define XXH_STATIC_LINKING_ONLY /* see param.c */
#include "param/safetensors.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    PREFIX = 8,
    MAX_HEADER = 64 << 20,
    ALIGN = 8,
    HEX = 16,
    PIECE = 1 << 18,    /* floats written at a time */
    MAP_FROM = 8 << 20, /* larger files are mapped, not read */
};
#define METADATA "__metadata__"
#define DATA_SUM "xxh3"
#define HEAD_SUM "xxh3_header"

/* The product of a shape; false if its bytes would not fit. A shape of no dimensions is one
 * number. */
static bool shape_count(const uint64_t *shape, uint32_t ndim, size_t *count)
{
    size_t n = 1;
    for (uint32_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(n, shape[d], &n))
            return false;
    *count = n;
    return n <= SIZE_MAX / 2 / sizeof(float);
}

enum seal { SEAL_NONE, SEAL_WRONG, SEAL_RIGHT };

/* Writes the header's checksum into the header; returns whether the old digits were right. */
static enum seal seal(char *head, size_t len)
{
    static const char mark[] = "\"" HEAD_SUM "\":\"";
    char before[HEX], now[HEX + 1];
    char *digits = memmem(head, len, mark, strlen(mark));
    if (digits == NULL || (size_t)(head + len - digits) < strlen(mark) + HEX)
        return SEAL_NONE;
    digits += strlen(mark);
    memcpy(before, digits, HEX);
    memset(digits, '0', HEX);
    snprintf(now, sizeof now, "%016llx", (unsigned long long)XXH3_64bits(head, len));
    memcpy(digits, now, HEX);
    return memcmp(before, now, HEX) == 0 ? SEAL_RIGHT : SEAL_WRONG;
}

/* ---- writing ---- */

static int by_tensor_ptr(const void *a, const void *b)
{
    const struct yk_tensor *const *ta = a, *const *tb = b;
    return strcmp((*ta)->name, (*tb)->name);
}

static int by_meta_ptr(const void *a, const void *b)
{
    const struct yk_meta *const *ma = a, *const *mb = b;
    return strcmp((*ma)->key, (*mb)->key);
}

static yk_code check_tensors(const char *path, const struct yk_tensor *const *t, size_t n,
                             struct yk_error *e)
{
    for (size_t i = 0; i < n; i++) {
        size_t count;
        if (t[i]->ndim > YK_DIMS || !shape_count(t[i]->shape, t[i]->ndim, &count) ||
            count != t[i]->count)
            return yk_fail(e, YK_USAGE,
                           "cannot write '%s': the shape of '%s' does not match its count", path,
                           t[i]->name);
        if (t[i]->name[0] == '\0' || strcmp(t[i]->name, METADATA) == 0 ||
            (i > 0 && strcmp(t[i]->name, t[i - 1]->name) == 0))
            return yk_fail(e, YK_USAGE,
                           "cannot write '%s': tensor name '%s' is reserved or used twice", path,
                           t[i]->name);
    }
    return YK_OK;
}

static json_t *describe(const struct yk_tensor *t, size_t begin)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->ndim; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + t->count * sizeof(float)));
}

/* Appends the length, the JSON and its padding; `out` is then complete or `failed`. */
static void make_header(const struct yk_tensor *const *t, size_t n, const struct yk_meta *const *m,
                        size_t metas, struct yk_buf *out)
{
    bool ok = true;
    size_t at = 0;
    json_t *head = json_object(), *about = json_object();
    for (size_t i = 0; i < metas; i++)
        ok &= json_object_set_new(about, m[i]->key, json_string(m[i]->value)) == 0;
    ok &= json_object_set_new(head, METADATA, about) == 0;
    for (size_t i = 0; i < n; i++) {
        ok &= json_object_set_new(head, t[i]->name, describe(t[i], at)) == 0;
        at += t[i]->count * sizeof(float);
    }
    char *text = ok ? json_dumps(head, JSON_COMPACT) : NULL; /* keeps the order of insertion */
    if (text == NULL) {
        out->failed = true;
        goto out_head;
    }
    uint64_t len = (strlen(text) + ALIGN - 1) / ALIGN * ALIGN;
    uint8_t prefix[PREFIX];
    for (int i = 0; i < PREFIX; i++)
        prefix[i] = (uint8_t)(len >> (8 * i));
    yk_buf_add(out, prefix, PREFIX);
    yk_buf_text(out, text);
    while (out->len < PREFIX + len && !out->failed)
        yk_buf_text(out, " ");
    if (!out->failed)
        seal(out->data + PREFIX, len);
    free(text);
out_head:
    json_decref(head);
}

/* Writes the floats of one tensor, PIECE at a time, and adds them to the checksum. */
static yk_code write_tensor(struct yk_outfile *file, const struct yk_tensor *t, float *piece,
                            XXH3_state_t *sum, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (size_t at = 0; at < t->count && rc == YK_OK; at += PIECE) {
        size_t n = t->count - at < PIECE ? t->count - at : PIECE;
        const float *from = t->data != NULL ? t->data + at : piece;
        if (t->data == NULL)
            rc = t->read(t->arg, at, n, piece, e);
        if (rc != YK_OK)
            break;
        if (t->broken != NULL && !yk_floats_finite(from, n)) {
            *t->broken = true;
            return yk_fail(e, YK_FAILED,
                           "cannot write '%s': tensor '%s' has values that are infinite or NaN",
                           file->path, t->name);
        }
        XXH3_64bits_update(sum, from, n * sizeof(float));
        rc = yk_outfile_write(file, from, n * sizeof(float), e);
    }
    return rc;
}

/* The header has the checksum of the data, but comes before them. So a header of the same length is
 * written first and overwritten at the end. */
static yk_code write_file(const char *path, const struct yk_tensor *const *t, size_t n,
                          const struct yk_meta *const *m, size_t metas, struct yk_meta *sum,
                          struct yk_error *e)
{
    struct yk_outfile file;
    struct yk_buf head = {0};
    XXH3_state_t state;
    float *piece = malloc(PIECE * sizeof *piece);
    if (piece == NULL)
        return yk_fail_memory(e, PIECE * sizeof *piece);
    yk_code rc = yk_outfile_open(&file, path, e);
    if (rc != YK_OK)
        goto out_piece;
    XXH3_64bits_reset(&state);
    make_header(t, n, m, metas, &head);
    size_t length = head.len;
    if (!head.failed)
        rc = yk_outfile_write(&file, head.data, length, e);
    bool ok = rc == YK_OK && !head.failed;
    for (size_t i = 0; i < n && ok; i++) {
        rc = write_tensor(&file, t[i], piece, &state, e);
        ok = rc == YK_OK;
    }
    snprintf(sum->value, sizeof sum->value, "%016llx",
             (unsigned long long)XXH3_64bits_digest(&state));
    yk_buf_clear(&head);
    make_header(t, n, m, metas, &head);
    if (rc == YK_OK && (head.failed || head.len != length))
        rc = yk_fail(
            e, YK_FAILED,
            "cannot write '%s': its names or metadata are not valid UTF-8, or memory ran out",
            path);
    if (rc == YK_OK)
        rc = yk_outfile_patch(&file, head.data, length, 0, e);
    if (rc == YK_OK)
        rc = yk_outfile_commit(&file, e);
    else
        yk_outfile_abort(&file);
out_piece:
    yk_buf_release(&head);
    free(piece);
    return rc;
}

yk_code yk_tensors_write(const char *path, const struct yk_tensor *tensor, size_t n,
                         const struct yk_meta *meta, size_t metas, struct yk_error *e)
{
    yk_code rc;
    struct yk_meta sum = {.key = DATA_SUM, .value = "0000000000000000"}, head_sum = sum;
    snprintf(head_sum.key, sizeof head_sum.key, "%s", HEAD_SUM);
    const struct yk_tensor **t = calloc(n + 1, sizeof(*t));
    const struct yk_meta **m = calloc(metas + 2, sizeof(*m));
    if (t == NULL || m == NULL) {
        rc = yk_fail_memory(e, (n + metas + 3) * sizeof(void *));
        goto out_sorted;
    }
    for (size_t i = 0; i < n; i++)
        t[i] = &tensor[i];
    qsort(t, n, sizeof *t, by_tensor_ptr);
    if ((rc = check_tensors(path, t, n, e)) != YK_OK)
        goto out_sorted;

    size_t k = 0;
    /* Old checksums in copied metadata are dropped. */
    for (size_t i = 0; i < metas; i++)
        if (strcmp(meta[i].key, DATA_SUM) != 0 && strcmp(meta[i].key, HEAD_SUM) != 0)
            m[k++] = &meta[i];
    m[k++] = &sum;
    m[k++] = &head_sum;
    qsort(m, k, sizeof *m, by_meta_ptr);

    rc = write_file(path, t, n, m, k, &sum, e);
out_sorted:
    free(m);
    free(t);
    return rc;
}

/* ---- reading ---- */

static int by_data(const void *a, const void *b)
{
    const struct yk_tensor *ta = a, *tb = b;
    if (ta->data != tb->data)
        return ta->data < tb->data ? -1 : 1;
    /* An empty tensor comes before the tensor that starts at the same place. */
    return ta->count < tb->count ? -1 : ta->count > tb->count;
}

static int by_name(const void *a, const void *b)
{
    const struct yk_tensor *ta = a, *tb = b;
    return strcmp(ta->name, tb->name);
}

static int by_key(const void *a, const void *b)
{
    const struct yk_meta *ma = a, *mb = b;
    return strcmp(ma->key, mb->key);
}

static yk_code read_meta(json_t *object, const char *what, struct yk_tensors *out,
                         struct yk_error *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return yk_fail(e, YK_DATA, "'%s': its " METADATA " is not an object", what);
    out->meta = calloc(json_object_size(object) + 1, sizeof *out->meta);
    if (out->meta == NULL)
        return yk_fail_memory(e, (json_object_size(object) + 1) * sizeof *out->meta);
    json_object_foreach(object, key, value)
    {
        struct yk_meta *m = &out->meta[out->metas++];
        if (!json_is_string(value))
            return yk_fail(e, YK_DATA, "'%s': metadata '%.40s' is not a string", what, key);
        if (strlen(key) >= sizeof m->key || json_string_length(value) >= sizeof m->value)
            return yk_fail(e, YK_DATA, "'%s': metadata '%.40s' is too long", what, key);
        strcpy(m->key, key);
        strcpy(m->value, json_string_value(value));
    }
    qsort(out->meta, out->metas, sizeof *out->meta, by_key);
    return YK_OK;
}

/* Reads an integer that is not negative; jansson has refused those of more than 63 bits. */
static bool get_size(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static yk_code read_tensor(const char *name, json_t *entry, const char *what, const char *data,
                           size_t size, struct yk_tensor *t, struct yk_error *e)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *range = json_object_get(entry, "data_offsets");
    uint64_t begin, end;

    if (strlen(name) >= sizeof t->name)
        return yk_fail(e, YK_DATA, "'%s': tensor name '%.40s...' is too long", what, name);
    strcpy(t->name, name);
    if (dtype == NULL || !json_is_array(shape) || json_array_size(range) != 2 ||
        !get_size(json_array_get(range, 0), &begin) || !get_size(json_array_get(range, 1), &end))
        return yk_fail(e, YK_DATA, "'%s': tensor '%s' lacks a proper dtype, shape or data_offsets",
                       what, name);
    if (strcmp(dtype, "F32") != 0)
        return yk_fail(e, YK_DATA, "'%s': tensor '%s' is of type '%.16s'; only F32 is read", what,
                       name, dtype);
    if (json_array_size(shape) > YK_DIMS)
        return yk_fail(e, YK_DATA, "'%s': tensor '%s' has %zu dimensions; at most %d are read",
                       what, name, json_array_size(shape), YK_DIMS);
    t->ndim = (uint32_t)json_array_size(shape);
    for (uint32_t d = 0; d < t->ndim; d++)
        if (!get_size(json_array_get(shape, d), &t->shape[d]))
            return yk_fail(e, YK_DATA,
                           "'%s': tensor '%s' has a dimension that is not a number of elements",
                           what, name);
    if (begin > end || end > size)
        return yk_fail(e, YK_DATA, "'%s': tensor '%s' lies outside the file's %zu bytes of data",
                       what, name, size);
    if (!shape_count(t->shape, t->ndim, &t->count) || t->count * sizeof(float) != end - begin)
        return yk_fail(e, YK_DATA, "'%s': the shape of tensor '%s' does not match its %llu bytes",
                       what, name, (unsigned long long)(end - begin));
    if (begin % sizeof(float) != 0)
        return yk_fail(e, YK_DATA, "'%s': tensor '%s' does not start at a multiple of 4 bytes",
                       what, name);
    t->data = (const float *)(const void *)(data + begin);
    return YK_OK;
}

static yk_code read_entries(json_t *head, const char *what, const char *data, size_t size,
                            struct yk_tensors *out, struct yk_error *e)
{
    const char *name;
    json_t *entry;
    yk_code rc;
    out->tensor = calloc(json_object_size(head) + 1, sizeof *out->tensor);
    if (out->tensor == NULL)
        return yk_fail_memory(e, (json_object_size(head) + 1) * sizeof *out->tensor);
    json_object_foreach(head, name, entry)
    {
        if (strcmp(name, METADATA) == 0)
            rc = read_meta(entry, what, out, e);
        else
            rc = read_tensor(name, entry, what, data, size, &out->tensor[out->n++], e);
        if (rc != YK_OK)
            return rc;
    }
    qsort(out->tensor, out->n, sizeof *out->tensor, by_data);
    const char *at = data;
    for (size_t i = 0; i < out->n; i++) {
        const struct yk_tensor *t = &out->tensor[i];
        if ((const char *)t->data != at)
            return yk_fail(e, YK_DATA, "'%s': a hole or an overlap lies before tensor '%s'", what,
                           t->name);
        at += t->count * sizeof(float);
    }
    if (at != data + size)
        return yk_fail(e, YK_DATA, "'%s': its last %zu bytes belong to no tensor", what,
                       (size_t)(data + size - at));
    qsort(out->tensor, out->n, sizeof *out->tensor, by_name);
    return YK_OK;
}

/* Takes over `bytes`, on failure too. They come from mmap if `mapped` > 0, else from malloc. */
static yk_code parse_owned(char *bytes, size_t n, size_t mapped, const char *what,
                           struct yk_tensors *out, struct yk_error *e)
{
    json_t *head = NULL;
    struct yk_tensors t = {
        .buffer = bytes, .mapped = mapped, .guard = mapped > 0 ? yk_guard(bytes, mapped) : 0};
    yk_code rc;
    uint64_t len = 0;
    if (n < PREFIX) {
        rc = yk_fail(e, YK_DATA, "'%s' is too short for a safetensors file: %zu bytes", what, n);
        goto out;
    }
    for (int i = 0; i < PREFIX; i++)
        len |= (uint64_t)(uint8_t)bytes[i] << (8 * i);
    if (len > MAX_HEADER || len > n - PREFIX) {
        rc = yk_fail(e, YK_DATA,
                     "'%s' is truncated or no safetensors file: its header claims %llu bytes", what,
                     (unsigned long long)len);
        goto out;
    }
    if ((rc = yk_json_parse(bytes + PREFIX, len, what, &head, e)) != YK_OK)
        goto out;
    enum seal sealed = seal(bytes + PREFIX, len);
    if (sealed == SEAL_WRONG) {
        rc = yk_fail(e, YK_DATA, "'%s' is damaged: its header does not match its checksum", what);
        goto out;
    }
    char *data = bytes + PREFIX + len;
    size_t size = n - PREFIX - len;
    if (len % sizeof(float) != 0) /* other writers may not pad the header: align the data */
        data = memmove(bytes, data, size);
    if ((rc = read_entries(head, what, data, size, &t, e)) != YK_OK)
        goto out;
    const char *want = yk_tensors_meta(&t, DATA_SUM), *format = yk_tensors_meta(&t, "format");
    bool ours = format != NULL && strncmp(format, "yoke-", 5) == 0;
    if (ours && (sealed == SEAL_NONE || want == NULL)) {
        rc = yk_fail(e, YK_DATA, "'%s' is damaged: it lacks a checksum that yoke writes", what);
        goto out;
    }
    char have[HEX + 1];
    snprintf(have, sizeof have, "%016llx", (unsigned long long)XXH3_64bits(data, size));
    if (want != NULL && strcmp(want, have) != 0)
        rc = yk_fail(e, YK_DATA, "'%s' is damaged: its data do not match their checksum", what);
out:
    json_decref(head);
    if (rc == YK_OK)
        *out = t;
    else
        yk_tensors_release(&t);
    return rc;
}

yk_code yk_tensors_read(const char *path, struct yk_tensors *out, struct yk_error *e)
{
    struct stat st;
    char *bytes = MAP_FAILED;
    /* O_NONBLOCK: opening a pipe must not wait; yk_file_read refuses it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
        if (fd >= 0)
            close(fd);
        return YK_DATA;
    }
    /* A checkpoint does not change, and a copy of a large one might not fit into memory. */
    if (S_ISREG(st.st_mode) && st.st_size > MAP_FROM)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes != MAP_FAILED)
        return parse_owned(bytes, (size_t)st.st_size, (size_t)st.st_size, path, out, e);
    size_t n;
    yk_code rc = yk_file_read(path, SIZE_MAX / 2, &bytes, &n, e);
    return rc == YK_OK ? parse_owned(bytes, n, 0, path, out, e) : rc;
}

yk_code yk_tensors_parse(const void *bytes, size_t n, const char *what, struct yk_tensors *out,
                         struct yk_error *e)
{
    char *copy = malloc(n + 1);
    if (copy == NULL)
        return yk_fail_memory(e, n + 1);
    if (n > 0)
        memcpy(copy, bytes, n);
    return parse_owned(copy, n, 0, what, out, e);
}

yk_code yk_tensors_intact(const struct yk_tensors *t, const char *path, struct yk_error *e)
{
    if (!yk_guard_broken(t->guard))
        return YK_OK;
    return yk_fail(e, YK_DATA, "'%s' changed while it was read", path);
}

void yk_tensors_release(struct yk_tensors *t)
{
    if (t == NULL)
        return;
    free(t->tensor);
    free(t->meta);
    yk_unguard(t->guard);
    if (t->mapped > 0)
        munmap(t->buffer, t->mapped);
    else
        free(t->buffer);
    *t = (struct yk_tensors){0};
}

const struct yk_tensor *yk_tensors_find(const struct yk_tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->tensor[i].name, name) == 0)
            return &t->tensor[i];
    return NULL;
}

const char *yk_tensors_meta(const struct yk_tensors *t, const char *key)
{
    for (size_t i = 0; i < t->metas; i++)
        if (strcmp(t->meta[i].key, key) == 0)
            return t->meta[i].value;
    return NULL;
}

const struct yk_tensor *yk_tensors_view(const struct yk_tensors *t, const char *prefix,
                                        const struct yk_view *v)
{
    char name[2 * YK_NAME];
    snprintf(name, sizeof name, "%s%s", prefix, v->name);
    const struct yk_tensor *found = yk_tensors_find(t, name);
    bool same = found != NULL && found->ndim == v->ndim;
    for (uint32_t d = 0; same && d < v->ndim; d++)
        same = found->shape[d] == v->shape[d];
    return same ? found : NULL;
}

bool yk_tensors_count(const struct yk_tensors *t, const char *key, uint64_t *out)
{
    const char *text = yk_tensors_meta(t, key);
    size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 16 || text[digits] != '\0') /* 2^53 has 16 digits */
        return false;
    *out = strtoull(text, NULL, 10);
    return *out <= (uint64_t)1 << 53;
}
