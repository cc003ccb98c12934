/* packed.h - a data set that a test put together, in the form that softmax trains on. */
#ifndef YK_TESTS_PACKED_H
#define YK_TESTS_PACKED_H

#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A packed copy of `set`, which keeps its pixels and labels. Release it with packed_release. */
static inline struct yk_dataset packed_copy(const struct yk_dataset *set)
{
    struct yk_dataset copy = *set;
    size_t bytes = (size_t)set->rows * set->features;
    copy.pixels = malloc(bytes + YK_ROW_SLACK);
    assert_non_null(copy.pixels);
    memcpy(copy.pixels, set->pixels, bytes);
    assert_int_equal(yk_dataset_pack(&copy, NULL), YK_OK);
    return copy;
}

static inline void packed_release(struct yk_dataset *set)
{
    set->labels = NULL; /* the test's own */
    yk_dataset_release(set);
}

#endif
