/* sets.h - the kinds of labelled images, beside IDX files, that `--data` can name, and the list that drives it. A new kind is one file that
 * defines a `yk_set_<name>`, and one word in YK_SETS. */
#ifndef YK_DATA_SETS_H
#define YK_DATA_SETS_H

#include "base/buf.h"
#include "data/data.h"

struct yk_set_ops {
    const char *what; /* for messages: "a folder of CIFAR-10 binaries" */
    bool holds_out;   /* takes yk_imaging.holdout */

    /* Is `what` of this kind? Looks at names and at a few bytes. Where only the name tells, damaged files are of the kind too, so that `open` can say
     * what is wrong with them. Must not answer yes to another kind's. */
    bool (*is)(const char *what);

    /* As yk_data_open; either part may be NULL, but not both, and they come zeroed. `what` that is one file is whichever part is wanted. `name` and
     * `split` are the caller's to fill in, and on failure so is releasing what there is. */
    yk_code (*open)(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                    struct yk_dataset *test, struct yk_error *e);

    /* It is not of this kind, but was it meant to be? Then says in `e` what is amiss, YK_DATA. NULL if nobody can tell. */
    bool (*meant)(const char *what, struct yk_error *e);

    /* More lines for `yoke data info`, NULL if there is nothing to add. */
    yk_code (*describe)(const char *what, struct yk_buf *out, struct yk_error *e);
};

#define YK_SETS(X) X(fake) X(cifar) X(images)

#define YK_DECLARE_SET(name) extern const struct yk_set_ops yk_set_##name;
YK_SETS(YK_DECLARE_SET)
#undef YK_DECLARE_SET

/* Which kind is it? NULL: none of these. */
const struct yk_set_ops *yk_set_find(const char *what);

#endif
