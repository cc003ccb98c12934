/* crc32c.c - the Castagnoli CRC of TFRecord files, by a CPU instruction where there is one.
 *
 * The polynomial is 0x1edc6f41, bit-reflected 0x82f63b78; the register starts and ends inverted.
 * There are two ways to the same number, chosen at run time. SSE4.2 has an instruction for exactly
 * this polynomial, 8 bytes at a time. Other CPUs fold 8 bytes per step through 8 tables ("slicing
 * by 8"): table[k][b] is the register after byte b and then k zero bytes.
 * THREADS: any; the tables are filled once, on first use. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u
#define MASK_DELTA 0xa282ead8u

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = (c >> 1) ^ (c & 1 ? POLYNOMIAL : 0);
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 255];
}

static uint32_t crc_portable(uint32_t c, const uint8_t *p, size_t n)
{
    pthread_once(&table_once, fill_table);
    for (; n >= 8; p += 8, n -= 8)
        c = table[7][(c ^ p[0]) & 255] ^ table[6][((c >> 8) ^ p[1]) & 255] ^
            table[5][((c >> 16) ^ p[2]) & 255] ^ table[4][(c >> 24) ^ p[3]] ^ table[3][p[4]] ^
            table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    for (; n > 0; p++, n--)
        c = (c >> 8) ^ table[0][(c ^ *p) & 255];
    return c;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t c, const uint8_t *p, size_t n)
{
    uint64_t wide = c;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    c = (uint32_t)wide;
    for (; n > 0; p++, n--)
        c = _mm_crc32_u8(c, *p);
    return c;
}
#endif

static uint32_t crc32c(const void *bytes, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(~0u, bytes, n);
#endif
    return ~crc_portable(~0u, bytes, n);
}

uint32_t yk_crc32c_masked(const void *bytes, size_t n)
{
    uint32_t c = crc32c(bytes, n);
    return ((c >> 15) | (c << 17)) + MASK_DELTA;
}
