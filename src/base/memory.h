/* memory.h - how much memory is free. */
#ifndef YK_BASE_MEMORY_H
#define YK_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that this process could still allocate: free or easily freed, and within the limit of its
 * control group. */
uint64_t yk_memory_free(void);

#endif
