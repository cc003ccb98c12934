/* optim.c - the list of optimizers. A new one is one file and one word in YK_OPTIMIZERS. */
#include "optim/optim.h"

#include <string.h>

#define DECLARE(name) extern const struct yk_optimizer_ops yk_optimizer_##name;
YK_OPTIMIZERS(DECLARE)

#define COLLECT(name) &yk_optimizer_##name,
static const struct yk_optimizer_ops *const OPTIMIZERS[] = {YK_OPTIMIZERS(COLLECT)};

const struct yk_optimizer_ops *yk_optimizer_at(unsigned i)
{
    return i < sizeof OPTIMIZERS / sizeof OPTIMIZERS[0] ? OPTIMIZERS[i] : NULL;
}

const struct yk_optimizer_ops *yk_optimizer_find(const char *name)
{
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++)
        if (strcmp(yk_optimizer_at(i)->name, name) == 0)
            return yk_optimizer_at(i);
    return NULL;
}
