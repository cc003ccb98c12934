"""compare.py - yoke against PyTorch at its best, turn by turn in one run. Started by
bench/peers.sh.

    compare.py --yoke PATH --isa NAME --bench PATH --mnist FOLDER --openblas FOLDER [--rounds N]

First PyTorch is tried under every setting that is known to matter (which OpenBLAS, tuned for which
processor; how wide its own kernels are), and for each style and thread count the fastest setting is
kept; what was tried goes to standard error. Then yoke and PyTorch take turns: one round of the one,
one of the other, several times; figures are medians. On the way to the target each turn of either
is a new process that does nothing else, so its peak memory is its own. A setting lives in the
environment of a child process: nothing of the system is changed. Ratios are yoke / PyTorch with as
many threads as suit it, 1 or 2. Tables are Markdown, each floor with `kept` or `missed`. Exit
status 0 unless something is broken.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

PYTHON = "/usr/bin/python3"  # Debian's, for which python3-torch is installed
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "softmax_torch.py")
FAMILIES = {"idiomatic": ["idiomatic"], "by hand": ["by hand (C,F)", "by hand (F,C)"]}
THREADS = (1, 2)
ROUND_SECONDS = 0.3
TRIAL_ROUNDS = 3
ROWS = ((1, 1), (10, 1), (60, 1), (100, 1), (600, 1), (600, 2))  # batch, yoke's threads
TARGET = {"batch": 100, "loss": 0.35}
FLOORS = {60: 5, 100: 5}  # of the ratio to idiomatic PyTorch
TARGET_FLOOR = 5
TARGET_STEPS = (6600, 7600)  # about 7,100; anything else means that something else was trained


def head(*names):
    """A Markdown table begins; a colon at the end of a name aligns its column to the right."""
    row(*(name.rstrip(":") for name in names))
    print("|" + "".join("---:|" if name.endswith(":") else "---|" for name in names))


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def verdict(value, floor, at_most=False):
    if not floor:
        return "-"
    kept = value <= floor if at_most else value >= floor
    return f"{'at most ' if at_most else ''}{floor}, {'kept' if kept else 'missed'}"


def tell(text):
    """What is no result."""
    print(text, file=sys.stderr, flush=True)


def torch_version(about):
    """Debian's version of the package; what PyTorch calls itself stems from before its release."""
    package = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-torch"], check=False,
                             capture_output=True, text=True)
    return f"PyTorch {package.stdout or about['torch']}"


class Torch:
    """A PyTorch process under one setting: the script, told what to do by lines of JSON."""

    def __init__(self, setting, *script):
        self.started = time.perf_counter()
        self.process = subprocess.Popen([PYTHON, "-B", *script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **setting})
        self.about = self.answer()
        self.startup = time.perf_counter() - self.started  # to where the first step could begin

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: PyTorch ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def check_blas(self, setting, openblas):
        if setting and not any(path.startswith(openblas) for path in self.about["blas"]):
            sys.exit(f"bench: PyTorch did not load the OpenBLAS of '{openblas}', but "
                     f"{self.about['blas']}")

    def rate(self, style, threads, batch, seconds=ROUND_SECONDS):
        return self.ask(do="rate", style=style, threads=threads, batch=batch,
                        seconds=seconds)["steps_per_second"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Yoke:
    def __init__(self, args):
        self.args = args

    def rate(self, threads, batch):
        command = [self.args.bench, "--yoke", str(batch), "--threads", str(threads), "--rounds",
                   "1", "--isa", self.args.isa]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def target(self):
        """The summary of one run to the target, and how long the process lived."""
        with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
            command = [self.args.yoke, "train", "softmax", "--data", "mnist", "--batch",
                       str(TARGET["batch"]), "--lr", "0.01", "--target-loss", str(TARGET["loss"]),
                       "--isa", self.args.isa, "--run", "run", "--json"]
            start = time.perf_counter()
            done = subprocess.run(command, check=True, cwd=folder,
                                  env={**os.environ, "XDG_CONFIG_HOME": folder},
                                  capture_output=True, text=True)
            lived = time.perf_counter() - start
        summary = json.loads(done.stdout)
        seconds = summary["wall_seconds"] - summary["startup_seconds"]
        return {"seconds": seconds, "startup": lived - seconds, "steps": summary["global_steps"],
                "accuracy": summary["test_accuracy"], "peak_bytes": summary["peak_rss_bytes"]}


def settings(openblas):
    """Environments worth trying, by name. ISA=avx2 keeps PyTorch, like yoke, from what is better.
    """
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    openmp = {"LD_LIBRARY_PATH": openblas}
    haswell = {**openmp, "OPENBLAS_CORETYPE": "HASWELL"}
    if os.environ.get("ISA") == "avx2":
        return {"openmp, HASWELL, ATen avx2": {**haswell, "ATEN_CPU_CAPABILITY": "avx2"}}
    found = {"as installed": {}, "openmp": openmp}
    if "avx2" in flags:
        found["openmp, HASWELL"] = haswell
    if "avx512f" in flags:
        found["openmp, SKYLAKEX"] = {**openmp, "OPENBLAS_CORETYPE": "SKYLAKEX"}
        found["openmp, SKYLAKEX, ATen avx512"] = {**found["openmp, SKYLAKEX"],
                                                  "ATEN_CPU_CAPABILITY": "avx512"}
    return found


def try_settings(args):
    """Steps/s of every setting; the best (setting, style) for each family and thread count;
    PyTorch's version."""
    tried = {}
    columns = [(family, threads) for family in FAMILIES for threads in THREADS]
    tell(f"PyTorch under several settings: steps/s at batch {TARGET['batch']}, median of "
         f"{TRIAL_ROUNDS} short rounds\n")
    tell(f"{'setting':32}{'OpenBLAS core':>14}" +
         "".join(f"{f + ', ' + str(t):>15}" for f, t in columns))
    for name, setting in settings(args.openblas).items():
        torch = Torch(setting, WORKER, args.mnist)
        torch.check_blas(setting, args.openblas)
        line = f"{name:32}{torch.about['core'] or '-':>14}"
        for column in columns:
            family, threads = column
            for style in FAMILIES[family]:
                tried[column, name, style] = median(torch.rate(style, threads, TARGET["batch"])
                                                    for _ in range(TRIAL_ROUNDS))
            line += f"{max(tried[column, name, style] for style in FAMILIES[family]):15.0f}"
        tell(line)
        version = torch_version(torch.about)
        torch.close()
    best = {}
    for column in columns:
        _, name, style = max((value, name, style) for (c, name, style), value in tried.items()
                             if c == column)
        best[column] = (name, style)
    return best, version


def compare_rates(args, yoke, best, version):
    torch_of = {name: Torch(settings(args.openblas)[name], WORKER, args.mnist)
                for name in {name for name, _ in best.values()}}
    print(f"Softmax step on MNIST against {version}, steps/s; medians of {args.rounds} rounds, in "
          f"turns. Its settings (threads):")
    print("; ".join(f"{family} ({threads}) {name}, {style}"
                    for (family, threads), (name, style) in best.items()) + ".\n")
    head("batch:", "threads:", "yoke:", "idiomatic, 1 thread:", "2 threads:", "ratio:", "floor",
         "by hand, 1 thread:", "2 threads:", "ratio:")
    for batch, threads in ROWS:
        ours, theirs = [], {column: [] for column in best}
        for _ in range(args.rounds):
            ours.append(yoke.rate(threads, batch))
            for column, (name, style) in best.items():
                theirs[column].append(torch_of[name].rate(style, column[1], batch))
        own = median(ours)
        peer = {column: median(values) for column, values in theirs.items()}
        cells = [batch, threads, f"{own:.0f}"]
        for family in FAMILIES:
            rates = [peer[family, t] for t in THREADS]
            cells += [f"{r:.0f}" for r in rates] + [f"{own / max(rates):.1f}"]
            if family == "idiomatic":
                cells.append(verdict(own / max(rates), FLOORS.get(batch)))
        row(*cells)
    for torch in torch_of.values():
        torch.close()


def torch_target(args, name, style, threads):
    """One way to the target in a process that does nothing else."""
    torch = Torch(settings(args.openblas)[name], WORKER, args.mnist)
    run = {**torch.ask(do="target", style=style, threads=threads, **TARGET),
           "startup": torch.startup}
    torch.close()
    return run


def compare_target(args, yoke, best):
    ours, theirs = [], {column: [] for column in best}
    yoke.target()  # warms the page cache
    for _ in range(args.rounds):
        ours.append(yoke.target())
        for column, (name, style) in best.items():
            theirs[column].append(torch_target(args, name, style, column[1]))

    print(f"\nTo test loss {TARGET['loss']}: batch {TARGET['batch']}, rate 0.01, test set every "
          f"100 steps, 2 cores; medians of {args.rounds} turns, each a new process.\n")
    head("", "seconds:", "ratio:", "floor", "steps:", "accuracy:", "start-up s:", "peak MB:")
    own = median(run["seconds"] for run in ours)

    def line(label, runs, ratio="", floor=""):
        steps = median(run["steps"] for run in runs)
        row(label, f"{median(run['seconds'] for run in runs):.3f}", ratio, floor, f"{steps:.0f}",
            f"{100 * median(run['accuracy'] for run in runs):.2f} %",
            f"{median(run['startup'] for run in runs):.3f}",
            f"{median(run['peak_bytes'] for run in runs) / 1e6:.0f}")
        if not TARGET_STEPS[0] <= steps <= TARGET_STEPS[1]:
            sys.exit(f"bench: '{label}' took {steps:.0f} steps; this problem takes about 7,100: "
                     f"something is wrong")

    line("yoke", ours)
    for family in FAMILIES:
        fastest = min(THREADS, key=lambda t, f=family: median(run["seconds"]
                                                              for run in theirs[f, t]))
        for threads in THREADS:
            runs = theirs[family, threads]
            ratio = median(run["seconds"] for run in runs) / own
            judged = family == "idiomatic" and threads == fastest
            line(f"PyTorch {family}, {threads} thread{'s' if threads > 1 else ''}", runs,
                 f"{ratio:.1f}", verdict(ratio, TARGET_FLOOR if judged else None))


def main():
    parser = argparse.ArgumentParser(description="yoke against PyTorch at its best")
    parser.add_argument("--yoke", required=True, help="the program")
    parser.add_argument("--isa", default="auto", help="yoke's instruction set")
    parser.add_argument("--bench", required=True, help="the softmax benchmark")
    parser.add_argument("--mnist", required=True, help="the folder with the IDX files")
    parser.add_argument("--openblas", required=True,
                        help="the folder of the OpenMP build of OpenBLAS")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    args.yoke, args.bench = os.path.abspath(args.yoke), os.path.abspath(args.bench)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # two cores for everybody

    yoke = Yoke(args)
    best, version = try_settings(args)
    compare_rates(args, yoke, best, version)
    compare_target(args, yoke, best)


if __name__ == "__main__":
    main()
