/* memory.c - free memory, from the kernel's small text files; see memory.h.
 * LIMITS: only the control group that is mounted as the root is seen, as in a container. */
#include "base/memory.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number at the start of a file (`word` NULL) or after a word in it; UINT64_MAX if there is
 * none, as where the file says "max". */
static uint64_t number_in(const char *root, const char *name, const char *word)
{
    char path[YK_PATH_MAX], text[1 << 14];
    FILE *f = yk_path(path, NULL, "%s%s", root, name) == YK_OK ? fopen(path, "re") : NULL;
    if (f == NULL)
        return UINT64_MAX;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    const char *at = word != NULL ? strstr(text, word) : text;
    unsigned long long v = 0;
    bool found = at != NULL && sscanf(at + (word != NULL ? strlen(word) : 0), "%llu", &v) == 1;
    return found ? v : UINT64_MAX;
}

/* The free memory by the files below the folder `root`, which is "" except in tests. */
static uint64_t free_below(const char *root)
{
    static const struct {
        const char *most, *used, *stat, *cached;
    } LIMIT[] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
         "inactive_file "},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat",
         "total_inactive_file "},
    };
    uint64_t kib = number_in(root, "/proc/meminfo", "MemAvailable:");
    /* 1 GB is a guess for kernels that do not say. */
    uint64_t least = kib < UINT64_MAX / 1024 ? kib * 1024 : (uint64_t)1 << 30;
    for (size_t i = 0; i < sizeof LIMIT / sizeof LIMIT[0]; i++) {
        uint64_t most = number_in(root, LIMIT[i].most, NULL),
                 used = number_in(root, LIMIT[i].used, NULL);
        if (most == UINT64_MAX || used == UINT64_MAX)
            continue;
        /* The file cache counts as used, but the kernel gives it up first. */
        uint64_t cached = number_in(root, LIMIT[i].stat, LIMIT[i].cached);
        used -= cached < used ? cached : 0;
        uint64_t left = most > used ? most - used : 0;
        least = left < least ? left : least;
    }
    return least;
}

uint64_t yk_memory_free(void)
{
    return free_below("");
}
