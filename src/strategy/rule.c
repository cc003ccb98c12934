/* rule.c - the names of the modes; see rule.h. Pure functions; any thread. */
#include "strategy/rule.h"

#include <string.h>

#define QUOTE(name) #name,
static const char *const MODES[] = {YK_MODES(QUOTE)};

const char *yk_mode_name(enum yk_mode mode)
{
    return MODES[mode];
}

bool yk_mode_find(const char *name, enum yk_mode *out)
{
    for (unsigned i = 0; i < YK_MODE_COUNT; i++)
        if (strcmp(MODES[i], name) == 0) {
            *out = (enum yk_mode)i;
            return true;
        }
    return false;
}
