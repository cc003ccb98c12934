"""rpc_torch.py - one process of a job that trains softmax regression on MNIST with a parameter
server on PyTorch's RPC.

    rpc_torch.py MNIST_FOLDER RANK WORLD STORE SECONDS STYLE      rank 0 prints one JSON object on
                                                                  stdout

Rank 0 is the server, the others are trainers. None of these waits for another: it computes the
gradient of a minibatch of 60, and one call takes it to the server, has it applied at once and
brings the new parameters back. From zero weights, rate 0.01, float pixels that are in memory
beforehand, every trainer on its part of the examples. Two styles:
  idiomatic   nn.Linear, CrossEntropyLoss and autograd; the server is a Python function round
              optim.SGD, under a lock
  by hand     the gradient written out into a buffer made once, without autograd; parameters are one
              flat tensor; the server is TorchScript on a single thread, so that it needs neither a
              lock of its own nor Python's
RPC is TensorPipe, which takes shared memory between processes of one machine. STORE is a file that
does not exist yet; the ranks meet there. Counted are the calls that return within SECONDS after a
warm-up of a quarter of that. workers.py starts all ranks and ends them when their time is up;
should it be gone, an alarm does.
"""
import json
import signal
import sys
import threading
import time

import torch
from torch.distributed import rpc
from torch.nn import functional
from ddp_torch import ALARM_SECONDS, BATCH, part_of
from softmax_torch import RATE, Data, train

FEATURES, CLASSES = 784, 10
WEIGHTS = FEATURES * CLASSES
RPC_SECONDS = 30


def zero_layer():
    layer = torch.nn.Linear(FEATURES, CLASSES)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    return layer


class Idiomatic:
    """The server; its methods run on threads of RPC."""

    threads = 16  # RPC's own default

    def __init__(self):
        self.layer = zero_layer()
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=RATE)
        self.lock = threading.Lock()

    def push(self, gradients):
        with self.lock:
            for parameter, gradient in zip(self.layer.parameters(), gradients):
                parameter.grad = gradient
            self.optimizer.step()
            return [parameter.detach().clone() for parameter in self.layer.parameters()]

    def parameters(self):
        return self.layer.weight.detach(), self.layer.bias.detach()

    @staticmethod
    def trainer(data):
        layer, criterion = zero_layer(), torch.nn.CrossEntropyLoss()

        def step(rows):
            layer.zero_grad(set_to_none=True)
            xb, yb = data.x.index_select(0, rows), data.y.index_select(0, rows)
            criterion(layer(xb), yb).backward()
            fresh = rpc.rpc_sync("server", push,
                                 ([parameter.grad for parameter in layer.parameters()],))
            with torch.no_grad():
                for parameter, value in zip(layer.parameters(), fresh):
                    parameter.copy_(value)

        return step


@torch.jit.interface
class Pushable:
    def push(self, gradient: torch.Tensor) -> torch.Tensor:
        pass


class Flat(torch.nn.Module):
    """Weights and bias in one tensor of (CLASSES * FEATURES + CLASSES)."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.flat = torch.zeros(WEIGHTS + CLASSES)

    @torch.jit.export
    def push(self, gradient: torch.Tensor) -> torch.Tensor:
        self.flat.sub_(gradient, alpha=self.rate)
        return self.flat.clone()


@torch.jit.script
def push_flat(server: rpc.RRef[Pushable], gradient: torch.Tensor) -> torch.Tensor:
    return server.to_here().push(gradient)


class ByHand:
    threads = 1

    def __init__(self):
        self.module = torch.jit.script(Flat(RATE))

    def parameters(self):
        return self.module.flat[:WEIGHTS].view(CLASSES, FEATURES), self.module.flat[WEIGHTS:]

    @staticmethod
    def trainer(data):
        where = rpc.rpc_sync("server", reference)
        flat, gradient = torch.zeros(WEIGHTS + CLASSES), torch.empty(WEIGHTS + CLASSES)
        weight_gradient = gradient[:WEIGHTS].view(CLASSES, FEATURES)
        bias_gradient = gradient[WEIGHTS:]
        xb, yb = torch.empty(BATCH, FEATURES), torch.empty(BATCH, CLASSES)
        z, d = torch.empty(BATCH, CLASSES), torch.empty(BATCH, CLASSES)

        def step(rows):
            nonlocal flat
            torch.index_select(data.x, 0, rows, out=xb)
            torch.index_select(data.onehot, 0, rows, out=yb)
            torch.addmm(flat[WEIGHTS:], xb, flat[:WEIGHTS].view(CLASSES, FEATURES).t(), out=z)
            torch.softmax(z, 1, out=d)
            d.sub_(yb).div_(BATCH)
            torch.mm(d.t(), xb, out=weight_gradient)
            torch.sum(d, 0, out=bias_gradient)
            flat = rpc.rpc_sync("server", push_flat, (where, gradient))

        return step


STYLES = {"idiomatic": Idiomatic, "by hand": ByHand}


class Server:
    """What rank 0 holds beside the parameters: when to count, and what was counted."""

    def __init__(self, style, seconds):
        self.style = STYLES[style]()
        self.seconds = seconds
        self.lock = threading.Lock()
        self.begin = None
        self.counted = self.updates = 0

    def window(self):
        with self.lock:
            if self.begin is None:
                # a clock that all processes of a machine share
                self.begin = time.monotonic() + self.seconds / 4
            return self.begin, self.begin + self.seconds

    def report(self, counted, updates):
        with self.lock:
            self.counted += counted
            self.updates += updates


SERVER = None  # RPC calls functions by name


def push(gradients):
    return SERVER.style.push(gradients)


def reference():
    return rpc.RRef(SERVER.style.module, Pushable)


def window():
    return SERVER.window()


def report(counted, updates):
    SERVER.report(counted, updates)


def run_trainer(data, style):
    step = STYLES[style].trainer(data)
    counted = updates = 0
    begin, end = rpc.rpc_sync("server", window)

    def counting(rows):
        nonlocal counted, updates
        step(rows)
        updates += 1
        counted += begin <= time.monotonic() < end

    with torch.set_grad_enabled(style == "idiomatic"):
        train(data, BATCH, counting, lambda: time.monotonic() >= end)
    rpc.rpc_sync("server", report, (counted, updates))


def main():
    global SERVER
    signal.alarm(ALARM_SECONDS)
    folder, rank, world, store = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    seconds, style = float(sys.argv[5]), sys.argv[6]
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if rank == 0:
        SERVER = Server(style, seconds)
    else:
        data = part_of(Data(folder), rank - 1, world - 1)
    options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + store,
                                              rpc_timeout=RPC_SECONDS,
                                              num_worker_threads=STYLES[style].threads)
    rpc.init_rpc("server" if rank == 0 else f"trainer{rank}", rank=rank, world_size=world,
                 rpc_backend_options=options)
    if rank > 0:
        run_trainer(data, style)
    rpc.shutdown()  # waits for all
    if rank == 0:
        test_x, test_y = Data.part(folder, "t10k")
        weight, bias = SERVER.style.parameters()
        loss = functional.cross_entropy(functional.linear(test_x, weight, bias), test_y).item()
        print(json.dumps({"updates_per_second": SERVER.counted / seconds, "updates": SERVER.updates,
                          "test_loss": loss}))


if __name__ == "__main__":
    main()
