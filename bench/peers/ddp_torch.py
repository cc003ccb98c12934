"""ddp_torch.py - one process of a job that trains softmax regression on MNIST by PyTorch's
DistributedDataParallel over gloo.

    ddp_torch.py MNIST_FOLDER RANK WORLD STORE SECONDS      rank 0 prints one JSON object on stdout

As a tutorial shows it: nn.Linear, CrossEntropyLoss, DDP, backward, optim.SGD at rate 0.01, from
zero weights. Every rank trains on its part of the examples, in shuffled minibatches of 60, on float
pixels that are in memory beforehand; gradients are averaged over the ranks in every step, so a step
of all of them is one update. STORE is a file that does not exist yet; the ranks meet there. Timed
are at least SECONDS after a warm-up of a quarter of that. workers.py starts all ranks and ends them
when their time is up; should it be gone, an alarm does.
"""
import json
import signal
import sys
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from softmax_torch import RATE, Data, train

BATCH = 60  # per worker
ALARM_SECONDS = 90  # longer than workers.py waits


def part_of(data, worker, workers):
    """Leaves one worker's part of the training data, in whole batches as a DataLoader's drop_last
    would."""
    rows = slice(worker, len(data.x) // (workers * BATCH) * workers * BATCH, workers)
    data.x, data.y, data.onehot = (tensor[rows].contiguous()
                                   for tensor in (data.x, data.y, data.onehot))
    return data


def main():
    signal.alarm(ALARM_SECONDS)
    folder, store = sys.argv[1], sys.argv[4]
    rank, world, seconds = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[5])
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    data = part_of(Data(folder), rank, world)
    distributed.init_process_group("gloo", init_method="file://" + store, rank=rank,
                                   world_size=world)

    layer = torch.nn.Linear(784, 10)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        xb, yb = data.x.index_select(0, rows), data.y.index_select(0, rows)
        criterion(model(xb), yb).backward()
        optimizer.step()

    def stop_after(duration):
        """Rank 0's clock decides for all of them, or one would wait for a gradient that never
        comes."""
        end, over = time.perf_counter() + duration, torch.zeros(1)

        def stop():
            over[0] = time.perf_counter() >= end
            distributed.broadcast(over, 0)
            return bool(over)

        return stop

    updates = train(data, BATCH, step, stop_after(seconds / 4))
    start = time.perf_counter()
    timed = train(data, BATCH, step, stop_after(seconds))
    took = time.perf_counter() - start
    if rank == 0:
        with torch.no_grad():
            loss = criterion(layer(data.test_x), data.test_y).item()
        print(json.dumps({"updates_per_second": timed / took, "updates": updates + timed,
                          "test_loss": loss}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
