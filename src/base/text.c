/* text.c - see text.h. */
#include "base/text.h"

#include <stdio.h>

const char *yk_size_text(uint64_t bytes, char out[24])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    unsigned u = 0;
    while (v >= 999.5 && u < 6) {
        v /= 1000;
        u++;
    }
    snprintf(out, 24, u == 0 ? "%.0f %s" : "%.1f %s", v, unit[u]);
    return out;
}

const char *yk_count_text(uint64_t v, char out[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v), at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
