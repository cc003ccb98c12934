/* testdir.h - a new folder for one test, and its removal with all its contents. */
#ifndef YK_TESTS_TESTDIR_H
#define YK_TESTS_TESTDIR_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int testdir_unlink(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* cmocka set-up: *state becomes the path of a new folder. */
static int testdir_setup(void **state)
{
    char *dir = strdup("/tmp/yoke-test-XXXXXX");
    if (dir == NULL || mkdtemp(dir) == NULL) {
        free(dir);
        return -1;
    }
    *state = dir;
    return 0;
}

/* cmocka tear-down. */
static int testdir_teardown(void **state)
{
    int rc = nftw(*state, testdir_unlink, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}

#endif
