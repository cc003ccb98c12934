/* allreduce.c - the baseline of synchronous training over MPI: a loop as one would write it by
 * hand.
 *
 *     mpirun -np 3 --mca mpi_yield_when_idle 1 allreduce BATCH UPDATES [ISA]
 *
 * Every rank computes the gradient of its own batch with yoke's kernel, MPI_Allreduce adds them,
 * and every rank applies the mean. There are no servers, no members to watch, no records and no
 * evaluation. It prints updates per second, and the loss as evidence that it learns. The data are
 * MNIST from yoke's cache; each rank has one thread. */
#include "base/clock.h"
#include "data/data.h"
#include "model/model.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const float RATE = 0.01f;

static void nothing(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s, (void)lo, (void)hi;
}

int main(int argc, char **argv)
{
    uint32_t batch = argc > 1 ? (uint32_t)atoi(argv[1]) : 60;
    long updates = argc > 2 ? atol(argv[2]) : 20000;
    int rank, size;
    struct yk_error e;
    struct yk_dataset train;
    struct yk_source source;
    struct yk_params params;
    struct yk_model *model;
    struct yk_work *work;
    const struct yk_model_ops *ops = yk_model_find("softmax");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (yk_data_open("mnist", NULL, &train, NULL, &e) != YK_OK ||
        yk_dataset_pack(&train, &e) != YK_OK || ops->open(&model, &train, &e) != YK_OK ||
        ops->layout(model, &params, 1, &e) != YK_OK ||
        ops->work_open(&work, model, 1, argc > 3 ? argv[3] : "auto", &e) != YK_OK ||
        yk_source_init(&source, &train, 1, true, &e) != YK_OK) {
        fprintf(stderr, "allreduce: %s\n", e.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    struct yk_sink sink = {.grad = yk_floats(params.count), .ready = nothing};
    if (sink.grad == NULL)
        return 1;
    double start = 0, loss = 0;
    uint64_t position = 0;
    for (long i = -updates / 10; i < updates; i++) { /* the first tenth warms up */
        struct yk_batch rows;
        uint64_t all = (uint64_t)batch * (uint64_t)size;
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = yk_now();
        }
        if (train.rows - position % train.rows < all)
            position += train.rows - position % train.rows; /* drops the rest of the epoch */
        uint64_t mine = position + (uint64_t)rank * batch;
        yk_source_at(&source, mine, batch, mine + all, &rows);
        loss = ops->step(work, &params, &rows, &sink);
        MPI_Allreduce(MPI_IN_PLACE, sink.grad, (int)params.count, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        float rate = RATE / (float)all;
        for (size_t k = 0; k < params.count; k++)
            params.flat[k] -= rate * sink.grad[k];
        position += all;
    }
    if (rank == 0)
        printf("%.1f updates/s, loss %.4f\n", (double)updates / (yk_now() - start), loss / batch);
    MPI_Finalize();
    return 0;
}
