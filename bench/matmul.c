/* matmul.c - what the multipliers of this machine can do: fused multiply-adds on registers alone, on so many threads at once.
 *
 *     bench/matmul [THREADS]      prints GFLOPS; a thread a CPU unless said otherwise
 *
 * A thread has more independent chains than a core has units times their latency, so nothing waits, and touches no memory. Compiled for
 * this very CPU; a vector is as wide as it has. The best of a few short rounds counts: it is what others are measured by. */
#include "base/clock.h"
#include "base/team.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__AVX512F__)
enum { WIDTH = 16, CHAINS = 16 };
#elif defined(__AVX__)
enum { WIDTH = 8, CHAINS = 12 };
#else
enum { WIDTH = 4, CHAINS = 12 };
#endif
enum { ROUNDS = 5, LOOPS = 20000000, MOST = 256 };

typedef float vec __attribute__((vector_size(WIDTH * sizeof(float))));

static float sink[MOST * 16]; /* a line each */

static void multiply(void *arg, unsigned part)
{
    (void)arg;
    vec chain[CHAINS], by, add;
    for (int i = 0; i < WIDTH; i++) {
        by[i] = 0.999f;
        add[i] = 0.001f;
    }
    for (int k = 0; k < CHAINS; k++)
        chain[k] = by * (float)k;
    for (int i = 0; i < LOOPS; i++)
#pragma GCC unroll 32
        for (int k = 0; k < CHAINS; k++)
            chain[k] = chain[k] * by + add;
    for (int k = 0; k < CHAINS; k++)
        sink[part * 16] += chain[k][0];
}

int main(int argc, char **argv)
{
    long asked = argc > 1 ? strtol(argv[1], NULL, 10) : (long)yk_cpus();
    struct yk_team *team = NULL;
    struct yk_error e;
    if (asked < 1 || asked > MOST || yk_team_open(&team, (unsigned)asked, &e) != YK_OK) {
        fprintf(stderr, "usage: bench/matmul [1..%d]\n", MOST);
        return 2;
    }
    double best = 0, flops = 2.0 * WIDTH * CHAINS * LOOPS * (double)asked;
    for (int r = 0; r < ROUNDS; r++) {
        double start = yk_now();
        yk_team_run(team, (unsigned)asked, multiply, NULL);
        double rate = flops / (yk_now() - start);
        best = rate > best ? rate : best;
    }
    yk_team_close(team);
    printf("%.1f\n", best * 1e-9);
    return 0;
}
