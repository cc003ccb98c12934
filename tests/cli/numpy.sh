#!/bin/bash
# numpy.sh - NumPy itself reads the .npz and .npy files that yoke writes, and yoke those that NumPy
# writes. Other tests read them by a program of our own, which could share yoke's mistakes.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
tool npz_reader
python=/usr/bin/python3 # Debian's, for which Debian's NumPy is
$python -c 'import numpy' 2>"$ERR" || skip_all "needs numpy for $python: $(tail -n 1 "$ERR")"

case_ "an exported model: names, types, shapes and bytes are those of the checkpoint"
tiny data train 60 6 6 3
tiny data t10k 20 6 6 3
expect_exit 0 yoke train softmax --data data --batch 20 --steps 30 --run run --quiet
expect_exit 0 yoke export run --to npz -o model.npz
cat >arrays.py <<'END_OF_PYTHON'
import json, numpy, struct, sys
model = numpy.load(sys.argv[1])
data = open(sys.argv[2], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + size])
compared = 0
for name in model.files:
    tensor = head[name]
    lo, hi = tensor["data_offsets"]
    array = model[name]
    assert array.dtype == numpy.float32 and tensor["dtype"] == "F32", name
    assert list(array.shape) == tensor["shape"], name
    assert array.tobytes() == data[8 + size + lo:8 + size + hi], name
    assert numpy.abs(array).max() > 0, name
    compared += 1
    order = "C" if array.flags["C_CONTIGUOUS"] else "F"
    print(name, array.dtype.str, order, "(" + "".join("%d," % n for n in array.shape) + ")")
assert compared == 2, compared
END_OF_PYTHON
expect_exit 0 $python arrays.py model.npz "$(newest_of run)"
expect_same "$(sort "$OUT")" "$(npz_reader model.npz | sort | sed 's/, /,/g')"

case_ "a product: type, order, shape, every element and the trace"
cat >write.py <<'END_OF_PYTHON'
import numpy
random = numpy.random.RandomState(3)
numpy.save("a.npy", random.uniform(-1, 1, (70, 41)).astype("f4"))
numpy.save("b.npy", numpy.asfortranarray(random.uniform(-1, 1, (41, 70))))
numpy.save("one.npy", numpy.eye(70, dtype="f4"))
END_OF_PYTHON
cat >read.py <<'END_OF_PYTHON'
import numpy
a, b, c = (numpy.load(x + ".npy") for x in "abc")
assert a.dtype == "f4" and b.dtype == "f8" and numpy.isfortran(b)
assert c.dtype == numpy.dtype("<f4") and c.shape == (70, 70) and c.flags["C_CONTIGUOUS"]
want = a.astype("f8") @ b.astype("f4").astype("f8")
assert numpy.abs(c - want).max() < 1e-5 and numpy.abs(c).max() > 1
print("%.6f" % numpy.trace(c.astype("f8")))
END_OF_PYTHON
expect_exit 0 $python write.py
expect_exit 0 yoke matmul a.npy b.npy -o c.npy --json --quiet
expect_same "$(json verified)" true
trace=$(json trace)
expect_exit 0 $python read.py
expect awk -v a="$trace" -v b="$(cat "$OUT")" \
    'BEGIN { d = a - b; exit !(b != "" && d < 1e-4 && -d < 1e-4) }'

case_ "yoke reads its own product as NumPy does: times one it is itself"
expect_exit 0 yoke matmul c.npy one.npy -o again.npy --quiet
expect cmp -s c.npy again.npy
