/* decimal.c - see decimal.h. Fast paths are exact in a double; all other numbers go to strtof.
 * THREADS: no state but the C locale, made once. */
#include "data/rows/decimal.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    EXACT_POWER = 22,  /* 10^22 = 2^22 5^22, and 5^22 < 2^53 */
    EXACT_DIGITS = 15, /* 10^15 < 2^53 */
    FLOAT_DIGITS = 9,  /* tell any two floats apart */
};

/* m * 10^exponent as a float; false if rounding twice may be wrong. m <= 2^53, the power is
 * exact. */
static bool scale(uint64_t m, int exponent, float *out)
{
    double d = (double)(int64_t)m;
    d = exponent <= 0 ? d / YK_POWERS[-exponent] : d * YK_POWERS[exponent];
    return yk_decimal_round(d, out);
}

static locale_t plain_locale;

static void make_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The caller may have set a locale with a decimal comma. */
static float slow(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_locale);
    return plain_locale == (locale_t)0 ? strtof(text, NULL) : strtof_l(text, NULL, plain_locale);
}

/* Adds digits to m. `kept` counts the digits in m, without leading zeros; `dropped` counts those
 * that no longer fit. */
static const char *read_digits(const char *p, uint64_t *m, unsigned *kept, unsigned *dropped)
{
    for (; yk_is_digit(*p); p++) {
        if (*kept < EXACT_DIGITS) {
            *m = *m * 10 + (uint64_t)(*p - '0');
            *kept += *m > 0;
        } else {
            ++*dropped;
        }
    }
    return p;
}

/* Reads any number, digit by digit. */
const char *yk_decimal_read_any(const char *start, float *out)
{
    const char *p = start;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    uint64_t m = 0;
    unsigned kept = 0, before = 0, behind = 0;
    const char *integer = p;
    p = read_digits(p, &m, &kept, &before);
    ptrdiff_t digits = p - integer, fraction = 0;
    if (*p == '.') {
        const char *point = ++p;
        p = read_digits(p, &m, &kept, &behind);
        fraction = p - point;
        digits += fraction;
    }
    if (digits == 0)
        return NULL;
    int64_t exponent = (int64_t)before - (fraction - (int64_t)behind);
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        bool minus = *q == '-';
        q += *q == '-' || *q == '+';
        if (!yk_is_digit(*q))
            return NULL;
        int64_t written = 0;
        for (; yk_is_digit(*q); q++)
            if (written < 1000000000)
                written = written * 10 + (*q - '0');
        exponent += minus ? -written : written;
        p = q;
    }
    float v, above = 0;
    bool sure = exponent >= -EXACT_POWER && exponent <= EXACT_POWER && scale(m, (int)exponent, &v);
    if (sure && before + behind > 0) /* the digits left out make it less than m + 1 */
        sure = scale(m + 1, (int)exponent, &above) && above == v;
    if (!sure)
        v = slow(negative || *start == '+' ? start + 1 : start);
    if (!isfinite(v))
        return NULL;
    *out = negative ? -v : v;
    return p;
}

const char *yk_decimal_read_negative(const char *p, float *out)
{
    const char *end = p[1] == '-' || p[1] == '+' ? NULL : yk_decimal_read(p + 1, out);
    if (end != NULL)
        *out = -*out;
    return end;
}

size_t yk_decimal_write_u32(char out[YK_DECIMAL_MAX], uint32_t v)
{
    char text[10];
    size_t n = 0;
    do {
        text[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = text[n - 1 - i];
    return n;
}

/* Does m * 10^exponent round to v? */
static bool reads_back(uint32_t m, int exponent, float v)
{
    char text[32];
    float back;
    if (abs(exponent) <= EXACT_POWER && scale(m, exponent, &back))
        return back == v;
    snprintf(text, sizeof text, "%ue%d", m, exponent);
    return slow(text) == v;
}

/* Finds `digits` decimal digits m and a power of ten that read back as v, in double arithmetic.
 * 10^top <= v < 10^(top + 1). */
static bool try_digits(float v, int top, int digits, uint32_t *m, int *exponent)
{
    int shift = digits - 1 - top;
    if (shift < -EXACT_POWER || shift > EXACT_POWER)
        return false;
    double scaled = shift >= 0 ? v * YK_POWERS[shift] : v / YK_POWERS[-shift];
    *m = (uint32_t)(scaled + 0.5); /* < 10^9 + 1 */
    *exponent = -shift;
    return reads_back(*m, *exponent, v);
}

/* The same through printf, for numbers that are too large or too small for that. */
static void slow_digits(float v, uint32_t *m, int *exponent)
{
    for (int digits = 1; digits <= FLOAT_DIGITS; digits++) {
        char text[32], *e;
        /* d?ddde+XX, where ? may be the point of any locale */
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)v);
        e = strchr(text, 'e');
        *m = 0;
        for (const char *p = text; p < e; p++)
            if (yk_is_digit(*p))
                *m = *m * 10 + (uint32_t)(*p - '0');
        *exponent = atoi(e + 1) - (digits - 1);
        if (reads_back(*m, *exponent, v))
            return;
    }
}

/* The power of ten below v > 0: 10^top <= v < 10^(top + 1), within the exact ones. */
static int top_power(float v)
{
    int e2;
    frexpf(v, &e2);
    /* of 2^(e2 - 1) <= v; 1233 / 4096 is a little more than log10(2) */
    int top = (e2 - 1) * 1233 >> 12;
    double next = top + 1 >= 0 ? v / YK_POWERS[top + 1] : v * YK_POWERS[-top - 1];
    return next >= 1 ? top + 1 : top;
}

/* The shortest digits of v > 0. If n digits are enough so are n + 1; most floats need 7 to 9. */
static void shortest(float v, uint32_t *m, int *exponent)
{
    int best = 0;
    if (v < 1e-12f || v > 1e20f) {
        slow_digits(v, m, exponent);
    } else {
        int top = top_power(v);
        for (int n = 6; n >= 1 && try_digits(v, top, n, m, exponent); n--)
            best = n;
        for (int n = 7; n <= FLOAT_DIGITS && best == 0; n++)
            if (try_digits(v, top, n, m, exponent))
                best = n;
        if (best == 0 || !try_digits(v, top, best, m, exponent))
            slow_digits(v, m, exponent);
    }
    for (; *m % 10 == 0; *m /= 10)
        ++*exponent;
}

size_t yk_decimal_write(char out[YK_DECIMAL_MAX], float v)
{
    size_t n = 0;
    uint32_t m;
    int exponent;
    if (signbit(v)) {
        out[n++] = '-';
        v = -v;
    }
    if (!isfinite(v)) { /* only a cache of another program can have one */
        for (const char *p = isnan(v) ? "nan" : "inf"; *p != '\0'; p++)
            out[n++] = *p;
        return n;
    }
    if (v < 1e7f && v == (float)(uint32_t)v)
        return n + yk_decimal_write_u32(out + n, (uint32_t)v);
    shortest(v, &m, &exponent);
    char digits[YK_DECIMAL_MAX];
    int k = (int)yk_decimal_write_u32(digits, m),
        point = k + exponent;                        /* digits before the point */
    if (point > k + 2 || point > 10 || point < -2) { /* d.ddde-XX */
        out[n++] = digits[0];
        if (k > 1)
            out[n++] = '.';
        memcpy(out + n, digits + 1, (size_t)(k - 1));
        n += (size_t)(k - 1);
        out[n++] = 'e';
        if (point - 1 < 0)
            out[n++] = '-';
        return n + yk_decimal_write_u32(out + n, (uint32_t)abs(point - 1));
    }
    if (point <= 0) { /* 0.00ddd */
        static const char zeros[4] = {'0', '.', '0', '0'};
        memcpy(out + n, zeros, sizeof zeros);
        n += (size_t)(2 - point);
        memcpy(out + n, digits, (size_t)k);
        return n + (size_t)k;
    }
    int before = point < k ? point : k;
    memcpy(out + n, digits, (size_t)before);
    n += (size_t)before;
    if (point < k) {
        out[n++] = '.';
        memcpy(out + n, digits + point, (size_t)(k - point));
        return n + (size_t)(k - point);
    }
    memset(out + n, '0', (size_t)(point - k));
    return n + (size_t)(point - k);
}
