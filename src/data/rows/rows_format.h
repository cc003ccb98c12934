/* rows_format.h - a format of sparse rows: how records are separated, read and written. A new one
 * is one file that defines a `yk_rows_format_<name>`, and one word in YK_ROW_FORMATS.
 *
 * An input is read in *pieces* of whole records, a megabyte each, and several threads parse one
 * piece each into a *chunk* of rows; chunks are put back in order. A parser sees memory, never a
 * file, and knows nothing of threads.
 * THREADS: `parse` runs on any thread, on a chunk of its own. */
#ifndef YK_DATA_ROWS_ROWS_FORMAT_H
#define YK_DATA_ROWS_ROWS_FORMAT_H

#include "base/buf.h"
#include "data/rows/rows.h"

struct yk_chunk { /* rows that a parser has made, in order */
    uint32_t rows, entries;
    uint32_t row_room, entry_room;
    uint8_t *label;        /* (row_room) */
    uint32_t *end;         /* (row_room) entries of this row and all before it */
    uint32_t *key;         /* (entry_room) */
    float *value;          /* (entry_room) */
    uint64_t bad;          /* records that were skipped */
    struct yk_error worst; /* what was wrong with the last of them */
    /* For yk_chunk_bad: `lines` of the piece lie before `at`, so that lines are counted once. */
    struct {
        const char *bytes, *at;
        uint64_t offset, lines;
    } counted;
};

/* Makes room for so many more; false if there is no memory or a chunk would have 2^32 entries.
 * Parsers ask once for the most that a piece can hold, or once a row. */
bool yk_chunk_room(struct yk_chunk *c, uint64_t rows, uint64_t entries);
void yk_chunk_clear(struct yk_chunk *c);   /* removes the rows, keeps the memory */
void yk_chunk_release(struct yk_chunk *c); /* a zeroed one is fine */

struct yk_piece {
    const char *bytes; /* (n) whole records, 64 readable bytes behind */
    size_t n;
    const char *path; /* for messages; "standard input" */
    uint64_t offset;  /* of bytes[0] in the input, inflated */
    uint64_t line;    /* lines of the input before bytes[0] */
};

/* Reports that the record at `at` in the piece is malformed, in one sentence such as "expected
 * index:value, found 'x3'"; file and line (for text) or byte offset are added. True: skip the
 * record and go on; false: return YK_DATA, *e is filled in. The parser removes what it stored of
 * it. */
bool yk_chunk_bad(struct yk_chunk *c, const struct yk_reading *how, const struct yk_piece *p,
                  const char *at, bool text, struct yk_error *e, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));

/* The word at `at` for such a sentence: up to the next space or `end`, unprintable bytes as '?',
 * cut after 20. Returns `out`. */
const char *yk_chunk_token(char out[24], const char *at, const char *end);

struct yk_rows_format {
    const char *name; /* as --format takes it: "libsvm" */
    const char *what; /* for messages: "libsvm text (label index:value ...)" */
    /* Could the input have this format? `head` is its beginning, inflated: n bytes, fewer than
     * YK_SNIFF only if the input is shorter. */
    bool (*sniff)(const uint8_t *head, size_t n);
    /* How many of the first n bytes are whole records? `last`: nothing follows, so all of them are,
     * or are malformed. */
    size_t (*cut)(const char *bytes, size_t n, bool last);
    yk_code (*parse)(const struct yk_reading *how, const struct yk_piece *p, struct yk_chunk *out,
                     struct yk_error *e);
    /* Appends one record; NULL: the format is only read. */
    void (*write)(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how);
};

#define YK_ROW_FORMATS(X) X(libsvm) X(tfrecord) X(criteo) X(vw)

#define YK_DECLARE_ROWS_FORMAT(name) extern const struct yk_rows_format yk_rows_format_##name;
YK_ROW_FORMATS(YK_DECLARE_ROWS_FORMAT)
#undef YK_DECLARE_ROWS_FORMAT

/* Can the row be written as criteo: 13 values that are log1p of positive integers, then 26 that are
 * 1? Made-up rows (synth.h) can. */
bool yk_criteo_fits(const struct yk_row *row);

const struct yk_rows_format *yk_rows_format_find(const char *name); /* NULL if there is none */

/* The format of an input that begins with `head`, as in `sniff`; NULL: unknown. */
const struct yk_rows_format *yk_rows_format_sniff(const uint8_t *head, size_t n);
enum { YK_SNIFF = 4096 };

/* Names for a hint: "libsvm, tfrecord and cache"; if `written`, only of formats that can be
 * written. Returns `out`. */
const char *yk_rows_format_names(char out[200], bool written);

/* splitmix64's finalizer: every bit of x affects every bit of the result. */
static inline uint64_t yk_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The key that --hash-bits makes of a number, the same in every format. `bits` is 1 .. 32. */
static inline uint32_t yk_key_hash(uint64_t key, unsigned bits)
{
    return (uint32_t)(yk_mix(key) >> (64 - bits));
}

/* Hashes the keys of a chunk from entry `first` on; does nothing if `bits` is 0. */
void yk_chunk_hash(struct yk_chunk *c, uint32_t first, unsigned bits);

/* Is it time for the next report? `told` is the time of the last one, 0 at first. */
bool yk_reading_due(const struct yk_reading *how, double *told);

/* `cut` of text: up to the last newline, or all if nothing follows. */
size_t yk_cut_lines(const char *bytes, size_t n, bool last);

#endif
