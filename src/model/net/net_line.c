/* net_line.c - words, sizes, numbers and names of a line of a .net file; see net_line.h. */
#include "model/net/net_line.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t yk_line_column(const struct yk_net_line *r)
{
    if (r->words == 0)
        return 1;
    return r->word[r->at < r->words ? r->at : r->words - 1].column;
}

const char *yk_next_word(const struct yk_net_line *r)
{
    return r->at < r->words ? r->word[r->at].text : NULL;
}

/* A trained model keeps the text as a string of JSON, which must be UTF-8. */
static yk_code check_comment(const struct yk_net_line *r, const char *line, size_t n)
{
    const char *comment = memchr(line, '#', n);
    if (comment == NULL)
        return YK_OK;
    size_t length = n - (size_t)(comment - line);
    json_t *j = memchr(comment, '\0', length) == NULL ? json_stringn(comment, length) : NULL;
    json_decref(j);
    return j != NULL ? YK_OK
                     : yk_net_fail(r->e, r->what, r->number, (uint32_t)(comment - line) + 1,
                                   "the comment is not UTF-8 text");
}

yk_code yk_line_cut(struct yk_net_line *r, const char *line, size_t n)
{
    r->words = r->at = 0;
    for (size_t i = 0; i < n && line[i] != '#'; i++) {
        unsigned char c = (unsigned char)line[i];
        uint32_t column = (uint32_t)i + 1;
        size_t end = i;
        if (c == ' ' || c == '\t' || (c == '\r' && i + 1 == n))
            continue;
        if (c < ' ' || c > '~')
            return yk_net_fail(r->e, r->what, r->number, column,
                               "byte 0x%02x is not part of any word", c);
        if (r->words == YK_LINE_WORDS)
            return yk_net_fail(r->e, r->what, r->number, column, "a line has at most %d words",
                               YK_LINE_WORDS);
        while (end < n && line[end] > ' ' && line[end] <= '~' && line[end] != '#')
            end++;
        if (end - i > YK_WORD_MOST)
            return yk_net_fail(r->e, r->what, r->number, column,
                               "a word has %zu characters: at most %d are possible", end - i,
                               YK_WORD_MOST);
        memcpy(r->word[r->words].text, line + i, end - i);
        r->word[r->words].text[end - i] = '\0';
        r->word[r->words++].column = column;
        i = end - 1;
    }
    return check_comment(r, line, n);
}

yk_code yk_take_sizes(struct yk_net_line *r, const char *of, uint32_t least, uint32_t *out,
                      unsigned cap, unsigned *n)
{
    const char *p = yk_next_word(r);
    if (p == NULL)
        return YK_LINE_FAIL(r, "%s is missing", of);
    for (*n = 0; *n < cap; p++) {
        uint64_t v = 0;
        const char *digits = p;
        for (; *p >= '0' && *p <= '9' && v <= YK_SIZE_MOST; p++)
            v = 10 * v + (uint64_t)(*p - '0');
        if (p == digits)
            break;
        if (v < least || v > YK_SIZE_MOST)
            return YK_LINE_FAIL(r, "%s is '%.40s': %u to %d are possible", of, yk_next_word(r),
                                least, YK_SIZE_MOST);
        out[(*n)++] = (uint32_t)v;
        if (*p == '\0') {
            r->at++;
            return YK_OK;
        }
        if (*p != 'x')
            break;
    }
    return YK_LINE_FAIL(r, "%s is '%.40s', not %s", of, yk_next_word(r),
                        cap == 1 ? "a whole number" : "whole numbers, such as 5x5");
}

yk_code yk_take_size(struct yk_net_line *r, const char *of, uint32_t least, uint32_t *out)
{
    unsigned n = 0;
    return yk_take_sizes(r, of, least, out, 1, &n);
}

yk_code yk_take_pair(struct yk_net_line *r, const char *of, uint32_t least, uint32_t out[2])
{
    unsigned n = 0;
    yk_code rc = yk_take_sizes(r, of, least, out, 2, &n);
    if (rc == YK_OK && n == 1)
        out[1] = out[0];
    return rc;
}

bool yk_is_number(const char *text, float *out)
{
    char *end;
    if (text == NULL || text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    double v = strtod(text, &end);
    *out = (float)v;
    return *end == '\0' && end != text && isfinite(*out);
}

yk_code yk_take_number(struct yk_net_line *r, const char *of, double least, double most, float *out)
{
    const char *p = yk_next_word(r);
    if (p == NULL)
        return YK_LINE_FAIL(r, "%s is missing", of);
    if (!yk_is_number(p, out))
        return YK_LINE_FAIL(r, "%s is '%.40s', not a number", of, p);
    if (!(*out >= least && *out <= most))
        return YK_LINE_FAIL(r, "%s is %.40s: %g to %g are possible", of, p, least, most);
    r->at++;
    return YK_OK;
}

yk_code yk_take_name(struct yk_net_line *r, const char *of, char *out, size_t cap)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                      OTHERS[] = "0123456789-_";
    const char *p = yk_next_word(r);
    if (p == NULL)
        return YK_LINE_FAIL(r, "%s is missing", of);
    size_t n = 0;
    while (p[n] != '\0' &&
           (strchr(LETTERS, p[n]) != NULL || (n > 0 && strchr(OTHERS, p[n]) != NULL)))
        n++;
    if (p[n] != '\0')
        return YK_LINE_FAIL(
            r, "%s is '%.40s': a letter, then letters, digits, - and _ are possible", of, p);
    if (n >= cap)
        return YK_LINE_FAIL(r, "%s is longer than %zu characters", of, cap - 1);
    memcpy(out, p, n + 1);
    r->at++;
    return YK_OK;
}
