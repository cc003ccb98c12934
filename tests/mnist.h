/* mnist.h - the real MNIST for tests: the copy that `make test` has fetched before. */
#ifndef YK_TESTS_MNIST_H
#define YK_TESTS_MNIST_H

#include "data/fetch.h"

/* Its folder in the cache; false if it is not there. Never downloads, because the mirror does not
 * exist. */
static bool mnist_folder(char folder[YK_PATH_MAX])
{
    return yk_fetch("mnist", "file:///nonexistent", NULL, NULL, folder, NULL) == YK_OK;
}

#endif
