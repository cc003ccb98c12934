/* decimal.h - decimal text to float32 and back, exactly rounded and fast.
 *
 * Reading takes eight digits at a time as one integer. Up to 15 digits and a power of ten up to 22
 * are exact in a double, so one division rounds once, and the step to float is right unless the
 * double lies half-way between two floats. Longer numbers are bracketed between two such numbers.
 * The rest, one number in many millions, goes to strtof.
 * Writing finds the shortest decimal that reads back as the same bits.
 * THREADS: no state. */
#ifndef YK_DATA_ROWS_DECIMAL_H
#define YK_DATA_ROWS_DECIMAL_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The eight bytes at p, at any address, as a number; the first byte is the lowest. */
static inline uint64_t yk_load8(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

/* The number of digits (0 .. 8) at the beginning of the eight bytes at p, and their value. */
static inline unsigned yk_digits8(const char *p, uint32_t *value)
{
    uint64_t x = yk_load8(p) ^ 0x3030303030303030; /* digits become 0 .. 9 */
    uint64_t other = (((x & 0x7f7f7f7f7f7f7f7f) + 0x7676767676767676) | x) &
                     0x8080808080808080; /* bytes that are more than 9 */
    unsigned bits = other == 0 ? 64 : (unsigned)__builtin_ctzll(other) - 7; /* bits of digits */
    x = bits == 0 ? 0 : x << (64 - bits); /* zeros in front, the last digit on top */
    x = x * 10 + (x >> 8);                /* pairs, in the even bytes */
    x = ((x & 0x000000ff000000ff) * 0x000f424000000064 +
         ((x >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
        32;
    *value = (uint32_t)x;
    return bits / 8;
}

/* The powers of ten that are exact in a double. */
static const double YK_POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Rounds the double nearest to a number to a float; false if that may not be the nearest float. */
static inline bool yk_decimal_round(double d, float *out)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    *out = (float)d;
    return (bits & 0x1fffffff) != 0x10000000; /* not half-way between two floats */
}

static inline bool yk_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *yk_decimal_read_any(const char *p, float *out);
const char *yk_decimal_read_negative(const char *p, float *out);

/* Reads a number like "-12.5e-3" at p. Returns what follows it, or NULL if there is none or it is
 * not finite as a float ("nan", "inf", "1e99"). A character that ends the number must follow, and
 * 16 readable bytes after that. The commonest forms, "d.ddd" and "dd", are read inline. */
static inline const char *yk_decimal_read(const char *p, float *out)
{
    static const uint32_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    uint32_t integer = (uint32_t)(unsigned char)p[0] - '0', fraction;
    unsigned n = 1;
    if (p[0] == '-')
        return yk_decimal_read_negative(p, out);
    if (p[1] != '.' || integer > 9)
        n = yk_digits8(p, &integer);
    const char *q = p + n;
    if (n == 0 || n == 8 || (*q | 32) == 'e')
        return yk_decimal_read_any(p, out);
    if (*q != '.') {
        *out = (float)(int32_t)integer; /* below 10^7: exact */
        return q;
    }
    unsigned k = yk_digits8(q + 1, &fraction);
    q += 1 + k;
    if (k == 8 || (*q | 32) == 'e' ||
        !yk_decimal_round((double)(int64_t)((uint64_t)integer * power[k] + fraction) / YK_POWERS[k],
                          out))
        return yk_decimal_read_any(p, out);
    return q;
}

enum { YK_DECIMAL_MAX = 16 }; /* bytes of the longest number: "-1.17549435e-38" */

/* Writes the shortest text for a finite v, without a NUL; returns its length. */
size_t yk_decimal_write(char out[YK_DECIMAL_MAX], float v);
size_t yk_decimal_write_u32(char out[YK_DECIMAL_MAX], uint32_t v);

#endif
