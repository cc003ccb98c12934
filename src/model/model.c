/* model.c - the list of models. A new one is one file and one word in YK_MODELS. */
#include "model/model.h"

#include <string.h>

#define DECLARE(name) extern const struct yk_model_ops yk_model_##name;
YK_MODELS(DECLARE)

#define COLLECT(name) &yk_model_##name,
static const struct yk_model_ops *const MODELS[] = {YK_MODELS(COLLECT)};

const struct yk_model_ops *yk_model_at(unsigned i)
{
    return i < sizeof MODELS / sizeof MODELS[0] ? MODELS[i] : NULL;
}

const struct yk_model_ops *yk_model_find(const char *name)
{
    for (unsigned i = 0; yk_model_at(i) != NULL; i++)
        if (strcmp(yk_model_at(i)->name, name) == 0)
            return yk_model_at(i);
    return NULL;
}
