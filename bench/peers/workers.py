"""workers.py - three workers of yoke against three of PyTorch, turn by turn in one run. Started by
bench/peers.sh.

    workers.py --yoke PATH --isa NAME --mnist FOLDER --openblas FOLDER [--rounds N]

Yoke's sync and allreduce, in threads and over MPI, stand against DistributedDataParallel
(ddp_torch.py); its async, in threads and over MPI, against a parameter server on PyTorch's RPC
(rpc_torch.py) in two styles. All train softmax regression on MNIST with a batch of 60 and one
thread per worker, everything on this machine. A round runs every contestant once, in new processes:
an idle TensorPipe polls, and would take a core from the others. Figures are medians of the rounds
and count updates per second of training, without start-up. PyTorch runs under the setting in which
one process alone is fastest. In the first round PyTorch's test loss must be yoke's after as many
updates. Exit status 0 unless something is broken; slow is not broken.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from statistics import median

from compare import (PYTHON, ROUND_SECONDS, TRIAL_ROUNDS, WORKER, head, row, settings, tell,
                     torch_version, verdict)

HERE = os.path.dirname(os.path.abspath(__file__))
WORKERS = 3
BATCH = 60
SECONDS = 1.5  # that PyTorch trains in a turn, after its warm-up
DEADLINE = 75  # seconds, start-up included, after which a turn has failed
NOISE = 0.04  # of the test loss: another order of the examples and, in async, of the updates
THREADS, MPI = ["--workers", str(WORKERS)], ["--hosts", f"localhost:{WORKERS}"]
YOKE = {  # name: options, steps that last about as long as a turn of PyTorch's
    "sync, threads": (["--mode", "sync", *THREADS], 20000),
    "sync, MPI": (["--mode", "sync", *MPI], 20000),
    "allreduce, threads": (["--mode", "allreduce", *THREADS], 20000),
    "allreduce, MPI": (["--mode", "allreduce", *MPI], 20000),
    "async, threads": (["--mode", "async", *THREADS], 80000),
    "async, MPI": (["--mode", "async", *MPI], 40000),
}
PYTORCH = {  # name: program, processes, its other arguments, who learns the same
    "DDP, gloo": ("ddp_torch.py", WORKERS, [], "sync, threads"),
    "RPC, idiomatic": ("rpc_torch.py", 1 + WORKERS, ["idiomatic"], "async, threads"),
    "RPC, by hand": ("rpc_torch.py", 1 + WORKERS, ["by hand"], "async, threads"),
}
FLOORS = {"threads": 50, "MPI": 20}


def end(process):
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def together(name, commands, folder, env, requests=""):
    """Runs the commands at the same time in the folder, all reading the requests; what the first
    one prints."""
    processes, due = [], time.monotonic() + DEADLINE
    path = os.path.join(folder, "{}.{}").format
    with open(path("requests", 0), "w", encoding="ascii") as file:
        file.write(requests)
    try:
        for number, command in enumerate(commands):
            with open(path("requests", 0), "rb") as file, \
                    open(path("out", number), "wb") as out, open(path("log", number), "wb") as log:
                processes.append(subprocess.Popen(command, cwd=folder, env=env, stdin=file,
                                                  stdout=out, stderr=log))
        while True:
            statuses = [process.poll() for process in processes]
            bad = next((number for number, status in enumerate(statuses) if status), None)
            if bad is not None or None not in statuses or time.monotonic() >= due:
                break
            time.sleep(0.02)
    finally:
        for process in processes:
            end(process)
    if bad is not None or None in statuses:
        with open(path("log", bad or 0), encoding="utf-8", errors="replace") as log:
            sys.stderr.write(log.read())
        sys.exit(f"bench: '{name}' took longer than {DEADLINE} s" if bad is None else
                 f"bench: '{name}' failed: process {bad} ended with status {statuses[bad]}")
    with open(path("out", 0), encoding="utf-8") as out:
        return out.read()


class Contest:
    def __init__(self, args, setting):
        self.args = args
        self.setting = setting

    def yoke(self, name, steps):
        """The summary of one run of that many updates."""
        options, _ = YOKE[name]
        with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
            command = [self.args.yoke, "train", "softmax", "--data", "mnist", "--batch", str(BATCH),
                       "--lr", "0.01", "--threads", "1", "--steps", str(steps), "--eval-every",
                       str(steps), "--checkpoint-every", str(steps), "--isa", self.args.isa,
                       "--run", "run", "--json", "--quiet", *options]
            env = {**os.environ, "XDG_CONFIG_HOME": folder}
            return json.loads(together(f"yoke {name}", [command], folder, env))

    def pytorch(self, name):
        """Updates per second, updates in all, and the test loss that they led to."""
        program, count, options, _ = PYTORCH[name]
        env = {**os.environ, **self.setting, "GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}
        with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
            commands = [[PYTHON, "-B", os.path.join(HERE, program), self.args.mnist, str(rank),
                         str(count), os.path.join(folder, "store"), str(SECONDS), *options]
                        for rank in range(count)]
            return json.loads(together(f"PyTorch {name}", commands, folder, env))

    def check_learning(self, name, run):
        """Contestants are comparable only if an update of the one does what an update of the other
        does."""
        loss = self.yoke(PYTORCH[name][3], run["updates"])["test_loss"]
        tell(f"{name:16}{run['updates']:8} updates, test loss {run['test_loss']:.3f}; yoke's after "
             f"as many {loss:.3f}")
        if abs(run["test_loss"] / loss - 1) > NOISE:
            sys.exit(f"bench: PyTorch {name} and yoke do not learn the same")


def best_setting(args):
    """The environment in which one process with one thread makes most steps; its name, and
    PyTorch's version."""
    found, rates, version = settings(args.openblas), {}, ""
    request = json.dumps({"do": "rate", "style": "by hand (C,F)", "threads": 1, "batch": BATCH,
                          "seconds": ROUND_SECONDS}) + "\n"
    for name, setting in found.items():
        with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
            said = together(f"PyTorch {name}", [[PYTHON, "-B", WORKER, args.mnist]], folder,
                            {**os.environ, **setting}, request * TRIAL_ROUNDS)
        about, *answers = [json.loads(line) for line in said.splitlines()]
        version = torch_version(about)
        rates[name] = median(answer["steps_per_second"] for answer in answers)
    best = max(rates, key=rates.get)
    return found[best], best, version


def main():
    parser = argparse.ArgumentParser(description="three workers of yoke against three of PyTorch")
    parser.add_argument("--yoke", required=True, help="the program")
    parser.add_argument("--isa", default="auto", help="yoke's instruction set")
    parser.add_argument("--mnist", required=True, help="the folder with the IDX files")
    parser.add_argument("--openblas", required=True,
                        help="the folder of the OpenMP build of OpenBLAS")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    args.yoke = os.path.abspath(args.yoke)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with us
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # two cores for everybody

    setting, name_of_setting, version = best_setting(args)
    contest = Contest(args, setting)
    ours, theirs = {name: [] for name in YOKE}, {name: [] for name in PYTORCH}
    for number in range(args.rounds):
        for name, (_, steps) in YOKE.items():
            ours[name].append(contest.yoke(name, steps)["steps_per_second"])
        for name in PYTORCH:
            run = contest.pytorch(name)
            theirs[name].append(run["updates_per_second"])
            if number == 0:
                contest.check_learning(name, run)

    print(f"{WORKERS} workers, batch {BATCH} and 1 thread each, against {version} "
          f"({name_of_setting}); updates/s, medians of {args.rounds} rounds, in turns.\n")
    head("yoke", "updates/s:", "PyTorch", "updates/s:", "ratio:", "floor")
    for peer, peers in theirs.items():
        for name, rates in ours.items():
            if (peer == "DDP, gloo") == name.startswith("async"):
                continue
            ratio = median(rates) / median(peers)
            # the floors are for what people write
            floor = None if peer == "RPC, by hand" else FLOORS[name.split(", ")[1]]
            row(name, f"{median(rates):.0f}", peer, f"{median(peers):.0f}", f"{ratio:.1f}",
                verdict(ratio, floor))


if __name__ == "__main__":
    main()
