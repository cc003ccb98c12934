"""softmax_torch.py - softmax regression on MNIST in PyTorch, as a program that trains when it is
told to.

    softmax_torch.py MNIST_FOLDER      one JSON request a line on stdin, one JSON answer a line on
                                       stdout

Three styles, all from zero weights at rate 0.01, on float pixels that are in memory beforehand, in
shuffled minibatches:
  idiomatic       nn.Linear, cross_entropy, backward, optim.SGD: what a tutorial shows
  by hand (C,F)   the gradient written out, in place, into buffers made once, without autograd,
                  weights as nn.Linear keeps them
  by hand (F,C)   the same with the weights the other way round
The styles by hand do not even compute the training loss. compare.py starts this program and
alternates it with yoke.
"""
import ctypes
import gzip
import json
import os
import re
import resource
import sys
import time

import torch
from torch.nn import functional

RATE = 0.01
CHECK_EVERY = 100  # steps between looks at the test set, as in yoke


def idx(folder, name, header):
    """The elements of an IDX file of bytes, plain or gzipped."""
    path = os.path.join(folder, name)
    opener = (open, path) if os.path.exists(path) else (gzip.open, path + ".gz")
    with opener[0](opener[1], "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:]


class Data:
    def __init__(self, folder):
        self.x, self.y = self.part(folder, "train")
        self.test_x, self.test_y = self.part(folder, "t10k")
        self.onehot = functional.one_hot(self.y, 10).float()

    @staticmethod
    def part(folder, name):
        labels = idx(folder, name + "-labels-idx1-ubyte", 8).long()
        pixels = idx(folder, name + "-images-idx3-ubyte", 16).view(len(labels), 784)
        return pixels.float().div_(255), labels  # in place: its peak memory is compared


def idiomatic(data, batch):
    del batch
    x, y = data.x, data.y
    model = torch.nn.Linear(784, 10)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        xb, yb = x.index_select(0, rows), y.index_select(0, rows)  # faster than x[rows], y[rows]
        functional.cross_entropy(model(xb), yb).backward()
        optimizer.step()

    return step, lambda: model(data.test_x)


def by_hand(data, batch, by_class):
    x, onehot = data.x, data.onehot
    weight = torch.zeros(10, 784) if by_class else torch.zeros(784, 10)
    matrix = weight.t() if by_class else weight  # (784, 10), a view
    bias = torch.zeros(10)
    xb, yb = torch.empty(batch, 784), torch.empty(batch, 10)
    z, d, db = torch.empty(batch, 10), torch.empty(batch, 10), torch.empty(10)
    rate = RATE / batch

    def step(rows):
        torch.index_select(x, 0, rows, out=xb)
        torch.index_select(onehot, 0, rows, out=yb)
        torch.addmm(bias, xb, matrix, out=z)
        torch.softmax(z, 1, out=d)
        d.sub_(yb)
        if by_class:
            weight.addmm_(d.t(), xb, alpha=-rate)
        else:
            weight.addmm_(xb.t(), d, alpha=-rate)
        torch.sum(d, 0, out=db)
        bias.sub_(db, alpha=rate)

    return step, lambda: torch.addmm(bias, data.test_x, matrix)


STYLES = {
    "idiomatic": idiomatic,
    "by hand (C,F)": lambda data, batch: by_hand(data, batch, True),
    "by hand (F,C)": lambda data, batch: by_hand(data, batch, False),
}


def train(data, batch, step, stop):
    """Epochs of shuffled minibatches until stop(), asked every CHECK_EVERY steps, says so; the
    steps made."""
    steps = 0
    while True:
        for rows in torch.randperm(len(data.x)).split(batch):
            step(rows)
            steps += 1
            if steps % CHECK_EVERY == 0 and stop():
                return steps


def rate(data, style, batch, seconds):
    """Steps a second, over at least so many seconds after a warm-up."""
    step, _ = STYLES[style](data, batch)
    for duration in (seconds / 4, seconds):
        start = time.perf_counter()
        steps = train(data, batch, step, lambda: time.perf_counter() - start >= duration)
        took = time.perf_counter() - start
    return {"steps_per_second": steps / took}


def target(data, style, batch, loss):
    """Seconds and steps until the test loss is at most `loss`."""
    step, logits = STYLES[style](data, batch)

    def reached():
        with torch.no_grad():
            return functional.cross_entropy(logits(), data.test_y).item() <= loss

    start = time.perf_counter()
    steps = train(data, batch, step, reached)
    took = time.perf_counter() - start
    with torch.no_grad():
        accuracy = (logits().argmax(1) == data.test_y).float().mean().item()
    return {"seconds": took, "steps": steps, "accuracy": accuracy}


def about():
    """What this process computes with."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        blas = sorted(set(re.findall(r"/\S*blas\S*", maps.read())))
    core = None
    for path in blas:
        if "openblas" in path and hasattr(ctypes.CDLL(path), "openblas_get_corename"):
            get = ctypes.CDLL(path).openblas_get_corename
            get.restype = ctypes.c_char_p
            core = get().decode()
    return {"torch": torch.__version__, "blas": blas, "core": core}


def main():
    data = Data(sys.argv[1])
    assert len(data.x) == 60000 and len(data.test_x) == 10000
    torch.manual_seed(1)
    print(json.dumps(about()), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request.pop("threads"))
        do = {"rate": rate, "target": target}[request.pop("do")]
        with torch.inference_mode(request["style"] != "idiomatic"):  # the lightest form of no_grad
            answer = do(data, **request)
        answer["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
