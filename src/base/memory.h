/* memory.h - how much memory there is to take. */
#ifndef YK_BASE_MEMORY_H
#define YK_BASE_MEMORY_H

#include <stdint.h>

/* Bytes of memory that this process could still take: what is free or easily freed, within the limit of its control group. */
uint64_t yk_memory_free(void);
/* The same by the files below `root`, which is "" but for tests. */
uint64_t yk_memory_free_below(const char *root);

#endif
