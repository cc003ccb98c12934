/* error.h - errors as values: the cause, the subject, and a hint at the cure.
 *
 * A function that can fail returns a yk_code and takes a `struct yk_error *` as its last argument,
 * which may be NULL. The code is also the exit status of the program (only cmd/ exits). The text is
 * one sentence: lowercase, cause first, subject in quotes. The hint, where the cure is known, is a
 * second sentence:
 *
 *     yoke: cannot open 'train.svm': no such file or directory
 *     hint: 'yoke data fetch mnist' downloads the default data
 *
 * THREADS: a struct yk_error belongs to its caller; nothing here is shared. */
#ifndef YK_BASE_ERROR_H
#define YK_BASE_ERROR_H

#include <stddef.h>

typedef enum yk_code {
    YK_OK = 0,
    YK_FAILED = 1, /* the machine refused: disk full, no memory, a command that failed */
    YK_USAGE = 2,  /* the user asked for something impossible: options, configuration */
    YK_DATA = 3,   /* a file is missing, unreadable or malformed */
    YK_LOST = 4,   /* a rank was lost beyond recovery */
} yk_code;

struct yk_error {
    yk_code code;
    char text[512]; /* the sentence, without the leading "yoke: " and without a full stop */
    char hint[384]; /* "" if there is none */
};

/* Fills `e` (if not NULL), clears its hint and returns `code`, so that a caller can write
 * `return yk_fail(e, YK_DATA, "...", path);`. */
yk_code yk_fail(struct yk_error *e, yk_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As yk_fail; appends ": " and the lowercase text of the current errno. */
yk_code yk_fail_errno(struct yk_error *e, yk_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a hint to an error that has been filled. */
void yk_hint(struct yk_error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* yk_fail for a failed allocation of `bytes`. */
yk_code yk_fail_memory(struct yk_error *e, size_t bytes);

#endif
