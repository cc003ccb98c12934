/* listing.h - the JPEG files of a folder of class folders. See listing.c. */
#ifndef YK_DATA_LISTING_H
#define YK_DATA_LISTING_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_CLASSES_MOST = 1 << 16 };

struct yk_listing {
    char *root;  /* NULL: only the names of classes are known */
    char *names; /* all names, one after another, each with its end mark */
    size_t names_len, names_room;
    size_t *class_at; /* (classes) where in `names` each one's begins; sorted, label i is class i */
    uint32_t classes;
    size_t *file_at; /* (rows) likewise of the files: class by class, sorted in each */
    uint16_t *label; /* (rows) */
    uint32_t rows, rows_room;
    uint64_t skipped; /* files of class folders that are not called .jpg or .jpeg */
    uint64_t xxh3;    /* of the names of files and classes, and of sizes */
};

/* The class folders of `root`, no files yet. */
yk_code yk_listing_classes(struct yk_listing *l, const char *root, struct yk_error *e);
/* ... and their files. With `like`, which may lack some of its classes, labels are those of `like`, and a class that it does not have is
 * YK_DATA; so is a file that cannot be opened or does not begin as a JPEG file does. */
yk_code yk_listing_read(struct yk_listing *l, const char *root, const struct yk_listing *like,
                        struct yk_error *e);
/* No folder at all: the classes that `names` has, as yk_listing_names gave them. Something to be `like`. */
yk_code yk_listing_named(struct yk_listing *l, const char *names, struct yk_error *e);
void yk_listing_release(struct yk_listing *l);

/* The names of the classes, in the order of labels: "cat/dog". The caller frees; NULL if there is no memory. */
char *yk_listing_names(const struct yk_listing *l);

/* The path of a row's file. */
yk_code yk_listing_path(const struct yk_listing *l, uint32_t row, char path[YK_PATH_MAX],
                        struct yk_error *e);

/* Does `root` have a folder with a picture in it, of whatever kind? */
bool yk_listing_sniff(const char *root);

/* Are there pictures, but not where class folders would have them? Straight in `root`, which leaves `deeper` empty, or in the class folders
 * of a folder of it, which `deeper` then names. */
bool yk_listing_stray(const char *root, char deeper[YK_PATH_MAX]);

/* Move the held-out rows, a share evenly spread, to `held`, which gets the same classes. YK_USAGE if that is not even one. */
yk_code yk_listing_hold_out(struct yk_listing *l, double share, struct yk_listing *held,
                            struct yk_error *e);

#endif
