/* text.h - sizes and counts as people read them. */
#ifndef YK_BASE_TEXT_H
#define YK_BASE_TEXT_H

#include <stdint.h>

/* Bytes with a decimal unit, such as "47.0 MB". Returns `out`. */
const char *yk_size_text(uint64_t bytes, char out[24]);

/* A count with its thousands separated, such as "1,234,567". Returns `out`. */
const char *yk_count_text(uint64_t v, char out[32]);

#endif
