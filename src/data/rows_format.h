/* rows_format.h - a format of sparse rows: how records are told apart, read and written. A new one is one file that defines a
 * `yk_rows_format_<name>`, and one word in YK_ROW_FORMATS.
 *
 * An input is read in *pieces* of whole records, a few MB each, parsed by several threads; each piece becomes a *chunk* of rows, and chunks
 * are put back in order. So a parser sees memory, never a file, and knows nothing of threads.
 * THREADS: `parse` runs on any thread, on a chunk of its own. */
#ifndef YK_DATA_ROWS_FORMAT_H
#define YK_DATA_ROWS_FORMAT_H

#include "base/buf.h"
#include "data/rows.h"

struct yk_chunk { /* rows that a parser has made, in order */
    uint32_t rows, entries;
    uint32_t row_room, entry_room;
    uint8_t *label;        /* (row_room) */
    uint32_t *end;         /* (row_room) entries up to the row's last, over the chunk */
    uint32_t *key;         /* (entry_room) */
    float *value;          /* (entry_room) */
    uint64_t bad;          /* records that were skipped, */
    struct yk_error worst; /* and what was wrong with the last of them */
    /* yk_chunk_bad's own: `lines` of the piece lie before `at`, so that many malformed rows do not cost a count from its beginning each */
    struct {
        const char *bytes, *at;
        uint64_t offset, lines;
    } counted;
};

/* Room for so many more; false if there is no memory or a chunk would have 2^32 entries. Parsers ask once for what a piece can hold at
 * most, or once a row. */
bool yk_chunk_room(struct yk_chunk *c, uint64_t rows, uint64_t entries);
void yk_chunk_clear(struct yk_chunk *c);   /* no rows, memory kept */
void yk_chunk_release(struct yk_chunk *c); /* a zeroed one is fine */

struct yk_piece {
    const char *bytes; /* (n) whole records, 64 readable bytes behind */
    size_t n;
    const char *path; /* for messages; "standard input" */
    uint64_t offset;  /* of bytes[0] in the (inflated) input */
    uint64_t line;    /* lines before it */
};

/* The record at `at` (a position in the piece) is malformed: one sentence, "expected index:value, found 'x3'", to which file and line (for
 * text) or byte offset are added. True: skip it and go on; false: the parser returns YK_DATA, *e is filled. Rows of the record that
 * are in the chunk already are the parser's to take back. */
bool yk_chunk_bad(struct yk_chunk *c, const struct yk_reading *how, const struct yk_piece *p,
                  const char *at, bool text, struct yk_error *e, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));

/* What stands at `at`, for such a sentence: up to the next space or `end`, unprintable bytes as '?', cut after 20. Returns `out`. */
const char *yk_chunk_token(char out[24], const char *at, const char *end);

struct yk_rows_format {
    const char *name; /* as --format takes it: "libsvm" */
    const char *what; /* for messages: "libsvm text (label index:value ...)" */
    /* Could it be? `head` is the input's beginning, inflated: n bytes, fewer than 4096 only if there are no more. */
    bool (*sniff)(const uint8_t *head, size_t n);
    /* How many of the first n bytes are whole records; `last`: nothing follows, so all that is left is (or is malformed). */
    size_t (*cut)(const char *bytes, size_t n, bool last);
    yk_code (*parse)(const struct yk_reading *how, const struct yk_piece *p, struct yk_chunk *out,
                     struct yk_error *e);
    /* Append one record; NULL: the format is only read. */
    void (*write)(struct yk_buf *out, const struct yk_row *row, const struct yk_reading *how);
};

#define YK_ROW_FORMATS(X) X(libsvm) X(tfrecord) X(criteo) X(vw)

#define YK_DECLARE_ROWS_FORMAT(name) extern const struct yk_rows_format yk_rows_format_##name;
YK_ROW_FORMATS(YK_DECLARE_ROWS_FORMAT)
#undef YK_DECLARE_ROWS_FORMAT

const struct yk_rows_format *yk_rows_format_find(const char *name); /* NULL if there is none */

/* By the beginning of an inflated input: YK_SNIFF bytes, fewer only if there are no more. NULL: none that we know. */
const struct yk_rows_format *yk_rows_format_sniff(const uint8_t *head, size_t n);
enum { YK_SNIFF = 4096 };

/* Their names, and "cache", for a hint: "libsvm, tfrecord and cache". `written`: those that can be. Returns `out`. */
const char *yk_rows_format_names(char out[200], bool written);

/* What --hash-bits makes of a key that is a number: the same in every format. */
static inline uint32_t yk_key_hash(uint64_t key, unsigned bits)
{
    key =
        (key ^ key >> 30) *
        0xbf58476d1ce4e5b9; /* splitmix64's finisher: every bit of the key moves every bit of the result */
    key = (key ^ key >> 27) * 0x94d049bb133111eb;
    key ^= key >> 31;
    return (uint32_t)(key >> (64 - bits)); /* bits: 1 .. 32 */
}

/* Is it time to say something again? `told` is when that was last the case; 0 at first, which only begins to count. */
bool yk_reading_due(const struct yk_reading *how, double *told);

/* For text: up to the last newline, or all if it is the last. */
size_t yk_cut_lines(const char *bytes, size_t n, bool last);

#endif
