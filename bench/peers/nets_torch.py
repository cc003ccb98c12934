"""nets_torch.py - LeNet and AlexNet in PyTorch, as a program that trains when it is told to.

    nets_torch.py lenet MNIST_FOLDER   one JSON request a line on stdin, one JSON answer a line on
                                       stdout
    nets_torch.py alexnet

The nets are those of models/lenet.net and models/alexnet.net, parameter for parameter, with
cross_entropy, backward and optim.SGD with momentum. LeNet trains on MNIST in shuffled minibatches
of float pixels that are in memory beforehand. AlexNet trains on one batch of random images that
never changes, so that nothing is left of its input but reading it. A style is the layout of images
and weights, contiguous or channels last, and how the optimizer walks over the parameters: one by
one, or over all at once (foreach). nets.py starts this program and alternates it with yoke.
"""
import json
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from softmax_torch import Data, about

RATE = {"lenet": 0.02, "alexnet": 0.001}
SHAPE = {"lenet": (1, 28, 28), "alexnet": (3, 224, 224)}
CLASSES = {"lenet": 10, "alexnet": 1000}
STYLES = {f"{layout}{walk}": (order, foreach)
          for layout, order in (("contiguous", torch.contiguous_format),
                                ("channels last", torch.channels_last))
          for walk, foreach in (("", False), (", foreach", True))}


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(inplace=True), nn.Linear(120, 84),
                         nn.ReLU(inplace=True), nn.Linear(84, 10))


def alexnet():
    """As torchvision has it, but for the average pooling to 6x6, which does nothing to images of
    224x224."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))


class Trainer:
    """A net in its first state, and its data."""

    def __init__(self, name, data, style, batch):
        order, foreach = STYLES[style]
        torch.manual_seed(1)
        self.model = {"lenet": lenet, "alexnet": alexnet}[name]().to(memory_format=order)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE[name], momentum=0.9,
                                         foreach=foreach)
        self.order = order
        self.batch = batch
        self.data = data
        self.loss = None
        if data is None:
            self.fixed = (torch.rand(batch, *SHAPE[name]).contiguous(memory_format=order),
                          torch.randint(CLASSES[name], (batch,)))

    def batches(self):
        """Images and labels without end; the last minibatch of an epoch is left out if it is not
        full."""
        while self.data is None:
            yield self.fixed
        while True:
            order = torch.randperm(len(self.data.x))
            for rows in order[:len(order) // self.batch * self.batch].split(self.batch):
                # faster than x[rows]
                images = self.data.x.index_select(0, rows).view(-1, 1, 28, 28)
                yield images.contiguous(memory_format=self.order), self.data.y.index_select(0, rows)

    def train(self, stop):
        """Steps until stop(steps) says so; how many were made."""
        for steps, (images, labels) in enumerate(self.batches(), 1):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss = functional.cross_entropy(self.model(images), labels)
            self.loss.backward()
            self.optimizer.step()
            if stop(steps):
                return steps


def rate(name, data, style, batch, seconds):
    """Steps a second, over at least so many seconds after a warm-up."""
    trainer = Trainer(name, data, style, batch)
    for duration in (seconds / 4, seconds):
        start = time.perf_counter()
        steps = trainer.train(lambda _: time.perf_counter() - start >= duration)
        took = time.perf_counter() - start
    return {"steps_per_second": steps / took}


def learn(name, data, style, batch, steps):
    """The state that so many steps lead to: the loss of the last batch and, with test data, the
    accuracy there."""
    trainer = Trainer(name, data, style, batch)
    trainer.train(lambda done: done >= steps)
    answer = {"parameters": sum(p.numel() for p in trainer.model.parameters()),
              "loss": trainer.loss.item(), "accuracy": None}
    if data is not None:
        with torch.no_grad():
            found = trainer.model.eval()(data.test_x.view(-1, 1, 28, 28)).argmax(1)
        answer["accuracy"] = (found == data.test_y).float().mean().item()
    return answer


def main():
    name = sys.argv[1]
    data = Data(sys.argv[2]) if name == "lenet" else None
    print(json.dumps({**about(), "onednn": torch.backends.mkldnn.is_available()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request.pop("threads"))
        answer = {"rate": rate, "learn": learn}[request.pop("do")](name, data, **request)
        answer["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
