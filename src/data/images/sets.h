/* sets.h - the kinds of labelled images that `--data` can name, and the list of them. A new kind is
 * one file that defines a `yk_set_<name>`, and one word in YK_SETS. */
#ifndef YK_DATA_IMAGES_SETS_H
#define YK_DATA_IMAGES_SETS_H

#include "base/buf.h"
#include "base/file.h"
#include "data/data.h"

struct yk_set_ops {
    /* The kind takes yk_imaging.holdout. */
    bool holds_out;

    /* Is `what` of this kind? Looks at names and at a few bytes. Damaged files are of the kind,
     * too, so that `open` can say what is wrong with them. Must not answer yes to other kinds. */
    bool (*is)(const char *what);

    /* As yk_data_open. Either part may be NULL, but not both, and they come zeroed. One file is
     * whichever part is wanted. The caller fills in `name` and `split`, and releases parts on
     * failure. */
    yk_code (*open)(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                    struct yk_dataset *test, struct yk_error *e);

    /* `what` is of no kind, but was it meant to be of this one? Then `e` says what is wrong, as
     * YK_DATA. NULL if nothing can tell. */
    bool (*meant)(const char *what, struct yk_error *e);

    /* The path of a second file that is read together with the file `what`, if there is one. NULL
     * if files stand alone. */
    bool (*beside)(const char *what, char path[YK_PATH_MAX]);

    /* More lines for `yoke data info`; NULL if there is nothing to add. */
    yk_code (*describe)(const char *what, struct yk_buf *out, struct yk_error *e);

    /* All lines of `yoke data info` for one file; NULL if a file is described as a set. */
    yk_code (*describe_file)(const char *path, struct yk_buf *out, struct yk_error *e);
};

#define YK_SETS(X) X(fake) X(cifar) X(images) X(idx)

#define YK_DECLARE_SET(name) extern const struct yk_set_ops yk_set_##name;
YK_SETS(YK_DECLARE_SET)
#undef YK_DECLARE_SET

/* The kind of `what`; NULL if there is none. */
const struct yk_set_ops *yk_set_find(const char *what);

#endif
