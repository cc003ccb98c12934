/* net_line.h - a line of a .net file, cut into words that are taken one after the other.
 * A word that is missing or wrong is YK_USAGE, with its place and what should stand there. */
#ifndef YK_MODEL_NET_NET_LINE_H
#define YK_MODEL_NET_NET_LINE_H

#include "model/net/net.h"

enum { YK_LINE_WORDS = 64, YK_WORD_MOST = 255, YK_SIZE_MOST = 1 << 20 };

struct yk_net_line {
    const char *what; /* the file's name in messages */
    uint32_t number;  /* of the line, from 1 */
    unsigned words;   /* in the line */
    unsigned at;      /* the word that is read next */
    struct {
        char text[YK_WORD_MOST + 1];
        uint32_t column; /* from 1 */
    } word[YK_LINE_WORDS];
    struct yk_error *e;
};

/* Cut a line (without its end) into words; # ends it. */
yk_code yk_line_cut(struct yk_net_line *r, const char *line, size_t n);

const char *yk_next_word(const struct yk_net_line *r); /* NULL at the end of the line */
/* The column of that word, or of the last one at the end of the line. */
uint32_t yk_line_column(const struct yk_net_line *r);
#define YK_LINE_FAIL(r, ...)                                                                       \
    yk_net_fail((r)->e, (r)->what, (r)->number, yk_line_column(r), __VA_ARGS__)

/* A chain of 1 to `cap` whole numbers, 28x28x1, each `least` or more; *n is their number. `of` is
 * their name in messages. */
yk_code yk_take_sizes(struct yk_net_line *r, const char *of, uint32_t least, uint32_t *out,
                      unsigned cap, unsigned *n);
yk_code yk_take_size(struct yk_net_line *r, const char *of, uint32_t least, uint32_t *out);
/* 5 or 5x5 */
yk_code yk_take_pair(struct yk_net_line *r, const char *of, uint32_t least, uint32_t out[2]);
/* A decimal number: no hexadecimals, no infinities. NULL is none. */
bool yk_is_number(const char *text, float *out);
yk_code yk_take_number(struct yk_net_line *r, const char *of, double least, double most,
                       float *out);
/* Letters, digits, - and _, a letter first: a name becomes part of file names. */
yk_code yk_take_name(struct yk_net_line *r, const char *of, char *out, size_t cap);

#endif
