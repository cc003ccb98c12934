"""logreg.py - sparse logistic regression: yoke against scikit-learn and liblinear, turn by turn in
one run. bench/peers.sh starts it.

    logreg.py --yoke PATH [--isa NAME] [--rows N] [--rounds N]

All of them read the same libsvm text, made-up rows like Criteo's (39 entries a row out of
33,762,578 features), train on it, and are tried on the same held-out rows of the same origin. Each
runs on one core.
  yoke           `--batch 1`, one pass in the order of the file, sgd (at the rate of scikit-learn's)
                 and adagrad; the cache is empty before every turn, so loading is parsing and
                 writing it
  scikit-learn   load_svmlight_file, then one partial_fit of SGDClassifier(loss="log_loss") over all
                 rows: constant rate, no penalty
  liblinear      the program `liblinear-train` as it is: it loads, trains until it is content and
                 writes its model; -s 7 (dual) and -s 0 (Newton), both with an L2 penalty; it gets
                 the same rows with keys numbered anew, without the millions that never occur
The programs' own start is not counted where they tell the times of their parts (yoke,
scikit-learn); liblinear's is, and is small. Figures are medians of the rounds; every other round
goes the other way round, since what ran before makes a difference (memory, what is still being
written). Exit status 0 unless something is broken: plain SGD must arrive at the same loss in yoke
and scikit-learn.
"""
import argparse
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from statistics import median

from compare import PYTHON, head, row

RATE = 0.005  # of both plain SGDs
# Held-out losses may differ so much: scikit-learn learns the intercept of sparse data a hundred
# times slower.
NOISE = 0.03
DEADLINE = 1800  # seconds, after which a turn has failed
SOLVERS = {"liblinear -s 7, dual": "7", "liblinear -s 0, Newton": "0"}
YOKE = {"yoke sgd": ["--optimizer", "sgd", "--lr", str(RATE)],
        "yoke adagrad": ["--optimizer", "adagrad"]}
SKLEARN = "scikit-learn SGD"


def run(command, folder):
    """What a program prints; its failure is ours."""
    env = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "cache"), "XDG_CONFIG_HOME": folder,
           "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        sys.exit(f"bench: '{' '.join(command[:3])}' ended with status {done.returncode}")
    return done.stdout


def log_loss(labels, chances):
    """Mean of -log of the chance that was given to what happened; no chance is taken for less than
    1e-15."""
    logs = (math.log(max(p if y else 1 - p, 1e-15)) for y, p in zip(labels, chances))
    return -math.fsum(logs) / len(labels)


def sklearn_turn(train, test, features):
    """The child process: one JSON object on stdout."""
    from sklearn import __version__  # only the child needs it, and it takes a second
    from sklearn.datasets import load_svmlight_file
    from sklearn.linear_model import SGDClassifier

    start = time.perf_counter()
    x, y = load_svmlight_file(train, n_features=features, zero_based=True)
    loaded = time.perf_counter()
    model = SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=RATE,
                          shuffle=False)
    model.partial_fit(x, y, classes=[-1, 1])
    trained = time.perf_counter()
    x, y = load_svmlight_file(test, n_features=features, zero_based=True)
    loss = log_loss((y > 0).tolist(), model.predict_proba(x)[:, 1].tolist())
    print(json.dumps({"load": loaded - start, "train": trained - loaded, "loss": loss,
                      "version": __version__}))


class Contest:
    def __init__(self, args, folder):
        self.yoke_path, self.isa, self.rows, self.folder = args.yoke, args.isa, args.rows, folder
        self.path = os.path.join(folder, "{}").format
        self.features = 0
        self.version = ""

    def make_data(self):
        """Text with a tenth more rows than are trained on: the last ones are held out."""
        held = self.rows // 10
        made = json.loads(run([self.yoke_path, "data", "synth", "criteo", "--rows",
                               str(self.rows + held), "-o", "all.libsvm", "--json"], self.folder))
        self.features = made["features"]
        with open(self.path("all.libsvm"), encoding="ascii") as file:
            for name, count in (("train", self.rows), ("test", held)):
                with open(self.path(name + ".libsvm"), "w", encoding="ascii") as out:
                    out.writelines(itertools.islice(file, count))
        os.remove(self.path("all.libsvm"))
        self.number_keys()
        return os.path.getsize(self.path("train.libsvm")), made["best_log_loss"]

    def number_keys(self):
        """Liblinear's copy. It counts keys from 1 and writes a line of text for each of them, which
        would take longer than all else; so here the keys of the training rows are 1, 2, 3, ..., in
        their order, and others are left out."""
        with open(self.path("train.libsvm"), encoding="ascii") as file:
            keys = sorted({int(entry.split(":", 1)[0]) for line in file
                           for entry in line.split()[1:]})
        number = {str(key): str(i + 1) for i, key in enumerate(keys)}
        for name in ("train", "test"):
            with open(self.path(name + ".libsvm"), encoding="ascii") as file, \
                    open(self.path(name + ".linear"), "w", encoding="ascii") as out:
                for line in file:
                    label, *entries = line.split()
                    pairs = (entry.split(":", 1) for entry in entries)
                    out.write(" ".join([label, *(f"{number[key]}:{value}" for key, value in pairs
                                                 if key in number)]) + "\n")

    def yoke(self, name):
        run(["rm", "-rf", "cache", "run"], self.folder)
        summary = json.loads(run([self.yoke_path, "train", "logreg", "--data", "train.libsvm",
                                  "--shuffle-buffer", "1", "--batch", "1", "--threads", "1",
                                  "--features", str(self.features), "--eval-every", str(self.rows),
                                  "--isa", self.isa, "--run", "run", "--json", "--quiet",
                                  *YOKE[name]], self.folder))
        score = json.loads(run([self.yoke_path, "eval", "run", "--data", "test.libsvm", "--json"],
                               self.folder))
        return {"load": summary["startup_seconds"], "train": summary["seconds"],
                "loss": score["test_loss"]}

    def sklearn(self):
        turn = json.loads(run([PYTHON, "-B", os.path.abspath(__file__), "--turn", "train.libsvm",
                               "test.libsvm", str(self.features)], self.folder))
        self.version = turn["version"]
        return turn

    def liblinear(self, name):
        start = time.perf_counter()
        run(["liblinear-train", "-q", "-s", SOLVERS[name], "-B", "1", "train.linear", "model"],
            self.folder)
        took = time.perf_counter() - start
        run(["liblinear-predict", "-b", "1", "test.linear", "model", "chances"], self.folder)
        with open(self.path("chances"), encoding="ascii") as file:
            column = file.readline().split().index("1")  # "labels 1 -1"
            chances = [float(line.split()[column]) for line in file]
        with open(self.path("test.linear"), encoding="ascii") as file:
            labels = [line.startswith("1") for line in file]
        return {"load": None, "train": took, "loss": log_loss(labels, chances)}

    def turn(self, name):
        if name in YOKE:
            return self.yoke(name)
        return self.sklearn() if name == SKLEARN else self.liblinear(name)


def both(turn):
    return turn["train"] + (turn["load"] or 0)


def table(rows, turns):
    own = "yoke sgd"

    def middle(name, what):
        return median(what(turn) for turn in turns[name])

    head("", "load s:", "train s:", "rows/s:", "ratio:", "both s:", "ratio:", "log loss:")
    for name, all_of in turns.items():
        whole, parts = middle(name, both), ["", "", "", ""]
        if all_of[0]["load"] is not None:
            train = middle(name, lambda turn: turn["train"])
            parts = [f"{middle(name, lambda turn: turn['load']):.3f}", f"{train:.3f}",
                     f"{rows / train:.0f}",
                     f"{train / middle(own, lambda turn: turn['train']):.1f}"]
        row(name, *parts, f"{whole:.3f}", f"{whole / middle(own, both):.1f}",
            f"{middle(name, lambda turn: turn['loss']):.4f}")


def main():
    parser = argparse.ArgumentParser(
        description="sparse logistic regression: yoke against scikit-learn and liblinear")
    parser.add_argument("--yoke", help="the program")
    parser.add_argument("--isa", default="auto", help="yoke's instruction set")
    parser.add_argument("--rows", type=int, default=300000,
                        help="to train on; a tenth as many are held out")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turn", nargs=3, metavar=("TRAIN", "TEST", "FEATURES"),
                        help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn:
        sklearn_turn(args.turn[0], args.turn[1], int(args.turn[2]))
        return
    if not args.yoke or args.rows < 1000:
        parser.error("--yoke and at least 1000 --rows")
    args.yoke = os.path.abspath(args.yoke)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # one core for everybody

    with tempfile.TemporaryDirectory(prefix="yoke-bench.") as folder:
        contest = Contest(args, folder)
        size, best = contest.make_data()
        turns = {name: [] for name in [*YOKE, SKLEARN, *SOLVERS]}
        contest.yoke("yoke sgd")  # warms the page cache
        for number in range(args.rounds):
            for name in list(turns)[::-1 if number % 2 else 1]:
                turns[name].append(contest.turn(name))
        print(f"{args.rows} rows of libsvm text, {size / 1e6:.0f} MB, {contest.features} features, "
              f"one core; medians of {args.rounds} rounds, in turns. scikit-learn "
              f"{contest.version}, liblinear of Debian 12. Ratios are seconds to those of yoke "
              f"sgd; log loss is on {args.rows // 10} other rows, where the true model has "
              f"about {best:.4f}.\n")
        table(args.rows, turns)
        ours, theirs = turns["yoke sgd"][0]["loss"], turns[SKLEARN][0]["loss"]
        if abs(theirs / ours - 1) > NOISE:
            sys.exit(f"bench: plain SGD ends at a log loss of {ours:.4f} in yoke and of "
                     f"{theirs:.4f} in scikit-learn")


if __name__ == "__main__":
    main()
