/* class_folders.h - the JPEG files of a folder of class folders. See class_folders.c. */
#ifndef YK_DATA_IMAGES_CLASS_FOLDERS_H
#define YK_DATA_IMAGES_CLASS_FOLDERS_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_CLASSES_MOST = 1 << 16 };

struct yk_class_folders {
    char *root;  /* NULL: only the names of classes are known */
    char *names; /* all names, one after another, each with its NUL */
    size_t names_len, names_room;
    /* (classes) where a class's name begins in `names`; sorted, label i is class i */
    size_t *class_at;
    uint32_t classes;
    size_t *file_at; /* (rows) where a file's name begins: class after class, sorted in each */
    uint16_t *label; /* (rows) */
    uint32_t rows, rows_room;
    uint64_t skipped; /* files of class folders that are not called .jpg or .jpeg */
    uint64_t xxh3;    /* of the names of files and classes, and of file sizes */
};

/* Finds the class folders of `root`, without their files. */
yk_code yk_class_folders_classes(struct yk_class_folders *l, const char *root, struct yk_error *e);
/* Finds class folders and their files. With `like`, labels are those of `like`: classes may be
 * missing, but a class that `like` does not have is YK_DATA. So is a file that cannot be opened or
 * does not begin as a JPEG file does. */
yk_code yk_class_folders_read(struct yk_class_folders *l, const char *root,
                              const struct yk_class_folders *like, struct yk_error *e);
/* Takes the classes from `names`, as yk_class_folders_names returns them, to be used as `like`. */
yk_code yk_class_folders_named(struct yk_class_folders *l, const char *names, struct yk_error *e);
void yk_class_folders_release(struct yk_class_folders *l);

/* The names of the classes, in the order of labels: "cat/dog". The caller frees; NULL: no
 * memory. */
char *yk_class_folders_names(const struct yk_class_folders *l);

/* The path of a row's file. */
yk_code yk_class_folders_path(const struct yk_class_folders *l, uint32_t row,
                              char path[YK_PATH_MAX], struct yk_error *e);

/* Does `root` have a folder with a picture in it, of any format? */
bool yk_class_folders_sniff(const char *root);

/* Are there pictures, but not in class folders? Either directly in `root`, and `deeper` is "", or
 * one folder too deep, and `deeper` names that folder. */
bool yk_class_folders_stray(const char *root, char deeper[YK_PATH_MAX]);

/* Moves a share of the rows, evenly spread, to `held`, which gets the same classes. YK_USAGE if
 * that is less than one row. */
yk_code yk_class_folders_hold_out(struct yk_class_folders *l, double share,
                                  struct yk_class_folders *held, struct yk_error *e);

#endif
