/* matmul.c - the peak speed of this machine: multiply-adds on registers alone (peak.h), on several
 * threads at once.
 *
 *     bench/matmul [THREADS [ISA]]      prints GFLOPS; default: one thread per CPU, best set
 *
 * Other figures are compared with this one, so the best of a few short rounds counts. */
#include "base/clock.h"
#include "base/team.h"
#include "bench/peak.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, TURNS = 20000000, MOST = 256 };

struct peak_job {
    const char *isa;
    double done[MOST]; /* by each thread */
};

static void multiply(void *arg, unsigned part)
{
    struct peak_job *j = arg;
    j->done[part] = yk_peak(j->isa, TURNS);
}

int main(int argc, char **argv)
{
    static struct peak_job job;
    long asked = argc > 1 ? strtol(argv[1], NULL, 10) : (long)yk_cpus();
    struct yk_team *team = NULL;
    const struct yk_kernels *kernels;
    struct yk_error e = {.text = "bench/matmul [1..256 [ISA]]"};
    if (asked < 1 || asked > MOST ||
        yk_kernels_pick(argc > 2 ? argv[2] : "auto", &kernels, &e) != YK_OK ||
        yk_team_open(&team, (unsigned)asked, &e) != YK_OK) {
        fprintf(stderr, "matmul: %s\n", e.text);
        return 2;
    }
    double best = 0;
    job.isa = kernels->name;
    for (int r = 0; r < ROUNDS; r++) {
        double start = yk_now(), done = 0;
        yk_team_run(team, (unsigned)asked, multiply, &job);
        double took = yk_now() - start;
        for (long i = 0; i < asked; i++)
            done += job.done[i];
        best = 2 * done / took > best ? 2 * done / took : best;
    }
    yk_team_close(team);
    printf("%.1f\n", best * 1e-9);
    return 0;
}
