/* rows_reader.c - turns inputs into rows with all cores, and keeps them in order.
 *
 * All threads do the same: take the next piece of the input (one thread at a time), parse it (all
 * at once), and hand over the pieces that are next in order and ready (one thread at a time, also
 * those of other threads). So no thread idles while there is work of any kind. Pieces lie in a ring
 * of a few more places than threads, which bounds the memory: a thread that is too far ahead waits
 * for a place.
 *
 *     taken ----> [ parsing | ready | parsing | free | free ]   place = number of piece % places
 *                    ^ handed                ^ taken
 *
 * A failure stays in its piece until its turn, so the first one in the order of the input is
 * reported.
 * THREADS: `source` guards the stream, and is held to take a piece; `lock` guards the ring.
 * `source` is never taken under `lock`. */
#include "data/rows/rows_reader.h"

#include "base/team.h"
#include "base/text.h"
#include "data/rows/stream.h"
#include "data/rows/synth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 1 << 20,    /* bytes read at a time: text and rows stay in the second-level cache */
    LONGEST = 64 << 20, /* bytes of the longest record */
    SLACK = 64,         /* readable bytes behind a piece */
    MOST_THREADS = 64,
    SPARE = 2, /* places beyond one per thread */
};

struct place {
    enum { FREE, PARSING, READY } state;
    char *bytes; /* (room + SLACK) */
    size_t room;
    struct yk_piece piece;
    const struct yk_rows_format *format;
    uint64_t from; /* synthetic: rows [from, from + rows) */
    uint32_t rows;
    struct yk_chunk chunk;
    struct yk_facts facts;
    yk_code rc;
    struct yk_error e;
};

struct reader {
    const struct yk_reading *how;
    struct yk_builder *to;
    const struct yk_synth *synth;
    uint64_t synth_rows;
    const char *const *paths;
    uint32_t n;

    pthread_mutex_t source;
    /* Under `source`: */
    uint64_t taken; /* pieces taken so far */
    bool ended;
    uint32_t next; /* the next path */
    struct yk_stream *stream;
    const struct yk_rows_format *format;
    uint64_t offset, line;
    uint64_t read, bytes; /* bytes read of all inputs, inflated, and their size; 0: unknown */
    double told;          /* time of the last report */
    char *rest;           /* (rest_n of rest_room) the bytes behind the last whole record */
    size_t rest_n, rest_room;

    pthread_mutex_t lock;
    pthread_cond_t moved; /* a place is free */
    /* Under `lock`: */
    uint64_t handed; /* pieces handed over so far */
    bool handing;    /* a thread is handing over */
    yk_code rc;      /* of the first piece that failed */
    struct yk_error e;
    uint64_t bad;

    unsigned places;
    struct place place[MOST_THREADS + SPARE];
};

/* --- taking pieces: under `source` --- */

static bool has_room(char **bytes, size_t *room, size_t used, size_t want)
{
    if (want <= *room)
        return true;
    char *p = used == 0 ? malloc(want + SLACK) : realloc(*bytes, want + SLACK);
    if (p == NULL)
        return false;
    if (used == 0)
        free(*bytes);
    *bytes = p;
    *room = want;
    return true;
}

static uint64_t count_lines(const char *bytes, size_t n)
{
    uint64_t lines = 0;
    /* Sums of bytes, of up to 255 lines each, become vectors. */
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 16 * 255 ? n : i + 16 * 255;
        uint8_t sum[16] = {0};
        for (; i + 16 <= end; i += 16)
            for (int k = 0; k < 16; k++)
                sum[k] = (uint8_t)(sum[k] + (bytes[i + (size_t)k] == '\n'));
        for (int k = 0; k < 16; k++)
            lines += sum[k];
        for (; i < end; i++)
            lines += bytes[i] == '\n';
    }
    return lines;
}

/* Opens the next input, finds its format, and reads its beginning into `rest`. *none: no more. */
static yk_code next_input(struct reader *r, bool *none, struct yk_error *e)
{
    *none = false;
    while (r->stream == NULL) {
        if (r->next == r->n) {
            *none = true;
            return YK_OK;
        }
        const char *path = r->paths[r->next++];
        char names[200];
        yk_code rc = yk_stream_open(&r->stream, path, e);
        if (rc == YK_OK && !has_room(&r->rest, &r->rest_room, 0, YK_SNIFF))
            rc = yk_fail_memory(e, YK_SNIFF);
        if (rc == YK_OK)
            rc = yk_stream_take(r->stream, r->rest, YK_SNIFF, &r->rest_n, e);
        if (rc != YK_OK)
            return rc;
        r->offset = r->line = 0;
        if (r->rest_n == 0) { /* an empty file has no rows, in any format */
            yk_stream_close(r->stream);
            r->stream = NULL;
            continue;
        }
        if (yk_cache_sniff(r->rest, r->rest_n)) {
            yk_fail(e, YK_DATA,
                    "'%s' is a cache of rows, which cannot be read together with other files or "
                    "compressed",
                    yk_stream_name(path));
            yk_hint(e, "give it alone, as a plain file");
            return YK_DATA;
        }
        r->format = r->how->format ? yk_rows_format_find(r->how->format)
                                   : yk_rows_format_sniff((const uint8_t *)r->rest, r->rest_n);
        if (r->format == NULL) {
            yk_fail(e, YK_DATA, "'%s' is in no format that yoke knows for rows",
                    yk_stream_name(path));
            yk_hint(e, "--format names its format, and yoke then says what is wrong with it: %s",
                    yk_rows_format_names(names, false));
            return YK_DATA;
        }
    }
    return YK_OK;
}

/* Reads whole records into the place, which grows for a record that is longer than a piece. */
static yk_code fill(struct reader *r, struct place *p, struct yk_error *e)
{
    size_t n = r->rest_n, whole = 0, want = n + PIECE / 2 > PIECE ? n + PIECE / 2 : PIECE;
    if (p->room > 4 * PIECE) { /* give back the memory of one long record */
        free(p->bytes);
        p->bytes = NULL;
        p->room = 0;
    }
    if (!has_room(&p->bytes, &p->room, 0, want))
        return yk_fail_memory(e, want + SLACK);
    if (n > 0)
        memcpy(p->bytes, r->rest, n);
    while (whole == 0) {
        size_t got;
        if (!has_room(&p->bytes, &p->room, n, want))
            return yk_fail_memory(e, want + SLACK);
        yk_code rc = yk_stream_take(r->stream, p->bytes + n, want - n, &got, e);
        if (rc != YK_OK)
            return rc;
        bool last = got < want - n;
        n += got;
        whole = last ? n : r->format->cut(p->bytes, n, false);
        if (last) {
            yk_stream_close(r->stream);
            r->stream = NULL;
            break;
        }
        if (whole == 0 && n > LONGEST)
            return yk_fail(e, YK_DATA, "'%s' byte %llu: a %s is longer than %d MB",
                           yk_stream_name(r->paths[r->next - 1]), (unsigned long long)r->offset,
                           r->format->cut == yk_cut_lines ? "line" : "record", LONGEST >> 20);
        want = 2 * n < LONGEST ? 2 * n : LONGEST + PIECE;
    }
    r->rest_n = n - whole;
    if (r->rest_n > 0) {
        if (!has_room(&r->rest, &r->rest_room, 0, r->rest_n))
            return yk_fail_memory(e, r->rest_n);
        memcpy(r->rest, p->bytes + whole, r->rest_n);
    }
    memset(p->bytes + whole, 0, SLACK);
    p->piece = (struct yk_piece){.bytes = p->bytes,
                                 .n = whole,
                                 .path = yk_stream_name(r->paths[r->next - 1]),
                                 .offset = r->offset,
                                 .line = r->line};
    p->format = r->format;
    r->offset += whole;
    r->read += whole;
    r->line += count_lines(p->bytes, whole);
    return YK_OK;
}

/* *none: there are no more pieces. */
static yk_code take_piece(struct reader *r, struct place *p, bool *none, struct yk_error *e)
{
    if (r->synth != NULL) {
        p->from = r->taken * YK_BLOCK_ROWS;
        *none = p->from >= r->synth_rows;
        p->rows = *none                                     ? 0
                  : r->synth_rows - p->from < YK_BLOCK_ROWS ? (uint32_t)(r->synth_rows - p->from)
                                                            : YK_BLOCK_ROWS;
        return YK_OK;
    }
    yk_code rc = next_input(r, none, e);
    return rc == YK_OK && !*none ? fill(r, p, e) : rc;
}

static void tell(const struct reader *r)
{
    char line[300], done[24], all[24];
    if (r->synth != NULL)
        snprintf(line, sizeof line, "%llu of %llu rows are made",
                 (unsigned long long)(r->taken * YK_BLOCK_ROWS), (unsigned long long)r->synth_rows);
    else if (r->read <= r->bytes) /* else it is compressed */
        snprintf(line, sizeof line, "reading '%.200s': %s of %s",
                 yk_stream_name(r->paths[r->next - 1]), yk_size_text(r->read, done),
                 yk_size_text(r->bytes, all));
    else
        snprintf(line, sizeof line, "reading '%.200s', file %u of %u: %s so far",
                 yk_stream_name(r->paths[r->next - 1]), r->next, r->n, yk_size_text(r->read, done));
    r->how->say(r->how->say_arg, line);
}

/* Takes the next piece, in a place of its own. NULL: no more, or an earlier one failed. */
static struct place *take(struct reader *r)
{
    pthread_mutex_lock(&r->source);
    struct place *p = NULL;
    if (!r->ended) {
        p = &r->place[r->taken % r->places];
        pthread_mutex_lock(&r->lock);
        while (p->state != FREE)
            pthread_cond_wait(&r->moved, &r->lock);
        p->state = PARSING;
        bool failed = r->rc != YK_OK;
        pthread_mutex_unlock(&r->lock);
        bool none = false;
        p->rc = failed ? YK_OK : take_piece(r, p, &none, &p->e);
        r->ended = failed || none || p->rc != YK_OK;
        r->taken += !failed && !none;
        p = failed || none ? NULL : p;
        if (p != NULL && p->rc == YK_OK && yk_reading_due(r->how, &r->told))
            tell(r);
    }
    pthread_mutex_unlock(&r->source);
    return p;
}

/* --- parsing: no lock --- */

static void parse(const struct reader *r, struct place *p)
{
    yk_chunk_clear(&p->chunk);
    if (p->rc != YK_OK)
        return;
    if (r->synth == NULL) {
        p->rc = p->format->parse(r->how, &p->piece, &p->chunk, &p->e);
    } else {
        p->rc = yk_synth_chunk(r->synth, p->from, p->rows, &p->chunk, &p->e);
        yk_chunk_hash(&p->chunk, 0, r->how->hash_bits);
    }
    if (p->rc == YK_OK && !yk_facts_find(&p->facts, &p->chunk))
        p->rc = yk_fail_memory(&p->e, p->chunk.entries * sizeof(uint32_t));
}

/* --- handing over: one at a time --- */

static yk_code hand_over(struct reader *r, struct place *p)
{
    if (p->rc != YK_OK)
        return p->rc;
    r->bad += p->chunk.bad;
    /* each piece had few enough, but all of them together have too many */
    if (r->bad > r->how->skip_bad) {
        p->e = p->chunk.worst;
        yk_hint(&p->e, "--skip-bad %llu leaves out that many malformed rows, and this is one more",
                (unsigned long long)r->how->skip_bad);
        return YK_DATA;
    }
    return yk_builder_add(r->to, &p->chunk, &p->facts, &p->e);
}

static void give(struct reader *r, struct place *mine)
{
    pthread_mutex_lock(&r->lock);
    mine->state = READY;
    for (struct place *p; !r->handing && (p = &r->place[r->handed % r->places])->state == READY;) {
        if (r->rc == YK_OK) {
            r->handing = true;
            pthread_mutex_unlock(&r->lock);
            yk_code rc = hand_over(r, p);
            pthread_mutex_lock(&r->lock);
            r->handing = false;
            if (rc != YK_OK) {
                r->rc = rc;
                r->e = p->e;
            }
        }
        p->state = FREE;
        r->handed++;
        pthread_cond_broadcast(&r->moved);
    }
    pthread_mutex_unlock(&r->lock);
}

static void work(void *arg, unsigned member)
{
    (void)member;
    struct reader *r = arg;
    for (struct place *p; (p = take(r)) != NULL;) {
        parse(r, p);
        give(r, p);
    }
}

static unsigned threads_worth(const struct yk_reading *how, uint64_t bytes)
{
    unsigned n = how->threads ? how->threads : yk_cpus();
    n = n < MOST_THREADS ? n : MOST_THREADS;
    return bytes > 0 && bytes / PIECE < n ? (unsigned)(bytes / PIECE) + 1 : n;
}

yk_code yk_rows_read(const char *const *paths, uint32_t n, const struct yk_synth *synth,
                     uint64_t synth_rows, uint64_t bytes, const struct yk_reading *how,
                     struct yk_builder *to, struct yk_error *e)
{
    struct yk_team *team = NULL;
    unsigned threads = threads_worth(how, bytes);
    struct reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return yk_fail_memory(e, sizeof *r);
    r->how = how;
    r->to = to;
    r->synth = synth;
    r->synth_rows = synth_rows;
    r->paths = paths;
    r->n = n;
    r->bytes = bytes;
    r->places = threads + SPARE;
    pthread_mutex_init(&r->source, NULL);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    yk_code rc = threads > 1 ? yk_team_open(&team, threads, e) : YK_OK;
    if (rc == YK_OK) {
        yk_team_run(team, threads, work, r);
        rc = r->rc;
        if (rc != YK_OK && e != NULL)
            *e = r->e;
    }
    yk_team_close(team);
    yk_stream_close(r->stream);
    for (unsigned i = 0; i < r->places; i++) {
        free(r->place[i].bytes);
        yk_chunk_release(&r->place[i].chunk);
        yk_facts_release(&r->place[i].facts);
    }
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->source);
    free(r->rest);
    free(r);
    return rc;
}
