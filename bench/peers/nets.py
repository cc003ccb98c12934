"""nets.py - nets in yoke against PyTorch at its best, turn by turn in one run. Started by
bench/peers.sh.

    nets.py lenet --yoke PATH --isa NAME --mnist FOLDER --openblas FOLDER
    nets.py alexnet --yoke PATH --isa NAME --openblas FOLDER
    with [--rounds N] [--seconds S] [--batch N]...

First PyTorch is tried under every setting that compare.py knows, in every style of nets_torch.py,
with 1 and with 2 threads, and what is fastest is kept for each batch and number of threads. Then
yoke's program and PyTorch take turns, each in a new process, so that its peak memory is its own.
Figures are medians of the rounds; examples per second count training only, start-up and evaluation
not. yoke is always given 2 threads; ratios are yoke / PyTorch with as many threads as suit it. Both
must have the same number of parameters and finite losses; lenet must also have learnt, in an epoch,
in both (95 % or more on the test set). That alexnet learns the same is not compared. Exit status 0
unless something is broken; slow is not broken.
"""
import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from statistics import median

from compare import Torch, head, row, settings, tell, torch_version, verdict

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets_torch.py")
STYLES = ("contiguous", "contiguous, foreach", "channels last", "channels last, foreach")
THREADS = (1, 2)
DEADLINE = 900  # seconds, start-up included, after which a turn of yoke's has failed


class Net:
    """What one of the nets is measured by."""

    def __init__(self, data, batches, floors, seconds, pace, memory_floor):
        self.data = data
        self.batches = batches
        self.floors = floors  # of the ratio of examples/s, by batch
        self.seconds = seconds  # that PyTorch trains in a turn
        self.pace = pace  # examples/s, roughly, to let yoke train about as long
        self.memory_floor = memory_floor  # of yoke's peak memory to PyTorch's


NETS = {
    "lenet": Net("mnist", (32, 64, 256), {64: 2}, 3.0, 50000, 1),
    "alexnet": Net("fake:224x224x3:1000", (64,), {64: 1.2}, 16.0, 80, None),
}


class Contest:
    def __init__(self, args):
        self.args = args
        self.net = NETS[args.net]
        self.script = [WORKER, args.net] + ([args.mnist] if args.net == "lenet" else [])
        self.settings = settings(args.openblas)

    def yoke(self, batch, steps):
        """The summary of one run."""
        with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
            command = [self.args.yoke, "train", self.args.net, "--data", self.net.data, "--batch",
                       str(batch), "--threads", "2", "--schedule", "constant", "--steps",
                       str(steps), "--eval-every", str(steps), "--checkpoint-every", str(steps),
                       "--isa", self.args.isa, "--run", "run", "--json", "--quiet"]
            done = subprocess.run(command, cwd=folder,
                                  env={**os.environ, "XDG_CONFIG_HOME": folder},
                                  stdout=subprocess.PIPE, timeout=DEADLINE, check=False)
        if done.returncode != 0:
            sys.exit(f"bench: yoke ended with status {done.returncode}")
        return json.loads(done.stdout)

    def torch(self, name, **request):
        """One answer of a new process under the setting of that name."""
        torch = Torch(self.settings[name], *self.script)
        answer = torch.ask(**request)
        torch.close()
        return answer

    def try_settings(self):
        """The best (setting, style) for each batch and number of threads, and PyTorch's version."""
        tried = {}
        columns = [(layout, threads) for threads in THREADS for layout in (STYLES[:2], STYLES[2:])]
        tell(f"PyTorch under several settings: {self.args.net}, examples/s by layout and threads, "
             f"the faster of foreach or not\n")
        tell(f"{'setting':32}{'OpenBLAS core':>14}{'batch':>6}"
             + "".join(f"{f'{layout[0]}, {threads}':>18}" for layout, threads in columns))
        for name, setting in self.settings.items():
            torch = Torch(setting, *self.script)
            torch.check_blas(setting, self.args.openblas)
            if not torch.about["onednn"]:
                sys.exit("bench: this PyTorch was built without oneDNN")
            for batch in self.args.batch:
                line = f"{name:32}{torch.about['core'] or '-':>14}{batch:6}"
                for layout, threads in columns:
                    for style in layout:
                        rate = torch.rate(style, threads, batch, self.args.seconds / 4)
                        tried[batch, threads, name, style] = batch * rate
                    line += f"{max(tried[batch, threads, name, style] for style in layout):18.1f}"
                tell(line)
            version = torch_version(torch.about)
            torch.close()
        best = {}
        for batch in self.args.batch:
            best[batch] = {}
            for threads in THREADS:
                _, name, style = max((rate, n, s) for (b, t, n, s), rate in tried.items()
                                     if (b, t) == (batch, threads))
                best[batch][threads] = (name, style)
        return best, version

    def check_learning(self, best):
        """Contestants are comparable only if they train the same net. Of alexnet only its size and
        finite losses are looked at."""
        lenet = self.args.net == "lenet"
        batch, steps = (64, 937) if lenet else (self.args.batch[0], 2)
        ours = self.yoke(batch, steps)
        name, style = best[self.args.batch[0]][1]
        theirs = self.torch(name, do="learn", style=style, threads=1, batch=batch, steps=steps)
        tell(f"\nwhat they learn in {steps} steps of {batch}: yoke, {ours['parameters']:,} "
             f"parameters, training loss {ours['train_loss']:.3f}; PyTorch, "
             f"{theirs['parameters']:,}, {theirs['loss']:.3f}")
        same = ours["parameters"] == theirs["parameters"]
        if lenet:
            tell(f"test accuracy: {100 * ours['test_accuracy']:.2f} and "
                 f"{100 * theirs['accuracy']:.2f} %")
            same = same and min(ours["test_accuracy"], theirs["accuracy"]) > 0.95
        same = same and all(math.isfinite(loss) for loss in (ours["train_loss"], theirs["loss"]))
        if not same:
            sys.exit("bench: the two do not train the same net")

    def round(self, batch, best):
        """One turn of each: (examples/s, peak bytes) by threads, None for yoke's."""
        steps = max(2, int(self.args.seconds * self.net.pace / batch))
        run = self.yoke(batch, steps)
        found = {None: (run["examples_per_second"], run["peak_rss_bytes"])}
        for threads, (name, style) in best[batch].items():
            run = self.torch(name, do="rate", style=style, threads=threads, batch=batch,
                             seconds=self.args.seconds)
            found[threads] = (batch * run["steps_per_second"], run["peak_bytes"])
        return found

    def table(self, best, version):
        net = self.net
        print(f"{self.args.net}: training, examples/s, against {version}; yoke's program with 2 "
              f"threads, medians of {self.args.rounds} rounds, in turns, each a new process; "
              "ratios to PyTorch's better number of threads. Its settings, batch (threads):")
        print("; ".join(f"{batch} ({threads}) {name}, {style}" for batch in self.args.batch
                        for threads, (name, style) in best[batch].items()) + ".\n")
        head("batch:", "yoke:", "PyTorch, 1 thread:", "2 threads:", "ratio:", "floor", "yoke MB:",
             "PyTorch MB:", "ratio:", "floor")
        for batch in self.args.batch:
            rounds = [self.round(batch, best) for _ in range(self.args.rounds)]
            rate = {who: median(r[who][0] for r in rounds) for who in rounds[0]}
            faster = max(THREADS, key=rate.get)
            ours, theirs = (median(r[who][1] for r in rounds) for who in (None, faster))
            ratio, memory = rate[None] / rate[faster], ours / theirs
            row(batch,
                *(f"{rate[who]:.{0 if rate[who] >= 1000 else 1}f}" for who in (None, *THREADS)),
                f"{ratio:.2f}", verdict(ratio, net.floors.get(batch)),
                f"{ours / 1e6:.0f}", f"{theirs / 1e6:.0f}", f"{memory:.2f}",
                verdict(memory, net.memory_floor, at_most=True))


def main():
    parser = argparse.ArgumentParser(description="nets in yoke against PyTorch at its best")
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--yoke", required=True, help="the program")
    parser.add_argument("--isa", default="auto", help="yoke's instruction set")
    parser.add_argument("--mnist", help="the folder with the IDX files, for lenet")
    parser.add_argument("--openblas", required=True,
                        help="the folder of the OpenMP build of OpenBLAS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float,
                        help="that a turn takes (default: 3 for lenet, 16 for alexnet)")
    parser.add_argument("--batch", type=int, action="append",
                        help="other batches than those of the floors")
    args = parser.parse_args()
    args.yoke = os.path.abspath(args.yoke)
    args.batch = args.batch or list(NETS[args.net].batches)
    args.seconds = args.seconds or NETS[args.net].seconds
    if args.net == "lenet" and not args.mnist:
        parser.error("lenet needs --mnist")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with us
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # two cores for everybody

    contest = Contest(args)
    best, version = contest.try_settings()
    contest.check_learning(best)
    contest.table(best, version)


if __name__ == "__main__":
    main()
