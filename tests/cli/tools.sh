#!/bin/bash
# tools.sh - the scripts that guard the tree do bark: each check is shown one tree it must accept and several it must not.
. "$(dirname "$0")/../lib.sh"

# tree FILE LINE...: a file of the small source tree in the current folder
tree()
{
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "/* ${1##*/} - a file of a test. */" "${@:2}" >"$1"
}

case_ "check-layers accepts includes that point down or stay at home"
tree src/base/a.c '#include "base/a.h"'
tree src/model/m.c '#include "base/a.h"' '#include "data/d.h"' '#include "model/m.h"' '#include <math.h>' '#include "yoke.h"'
tree cmd/train.c '#include "cmd/cmd.h"' '#include "train/train.h"'
tree src/comm/mpi_wire.c '#include <mpi.h>'
tree src/kernel/onednn_x.c '#include <oneapi/dnnl/dnnl.h>'
tree src/data/jpeg.c '#include <turbojpeg.h>'
expect_exit 0 "$top/tools/check-layers.sh"
expect_out '^ok check-layers: 6 files'

case_ "check-layers names file and line of an upward include"
tree src/base/up.c '#include <stdio.h>' '#include "train/train.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/base/up.c:3: .*upward'
rm src/base/up.c

case_ "check-layers sees siblings"
tree src/data/side.c '#include "param/param.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/data/side.c:2: .*siblings'
rm src/data/side.c

case_ "check-layers keeps the wrapped libraries wrapped"
tree src/model/wire.c '#include <mpi.h>' '#include <oneapi/dnnl/dnnl.h>' '#include <turbojpeg.h>'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^src/model/wire.c:2: mpi.h'
expect_out '^src/model/wire.c:3: dnnl.h'
expect_out '^src/model/wire.c:4: turbojpeg.h'
rm src/model/wire.c

case_ "check-layers keeps the public header alone"
tree include/yoke.h '#include "base/error.h"'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '^include/yoke.h:2: the public header'
rm include/yoke.h

case_ "check-layers wants a layer for every folder"
tree src/misc/x.c 'int x;'
expect_exit 1 "$top/tools/check-layers.sh"
expect_out '"misc" is in no layer'
rm -r src/misc

case_ "check-words accepts a clean tree"
expect_exit 0 "$top/tools/check-words.sh"
expect_out '^ok check-words'

for word in "TO DO" "FIX ME" "X XX" "/ro ot/x" "../sha red/x"; do
    word=${word/ /} # in two parts above, lest this file be the one that is found
    case_ "check-words finds '$word'"
    tree src/base/note.c "int x; /* $word */"
    expect_exit 1 "$top/tools/check-words.sh"
    expect_out '^./src/base/note.c:2:'
done
rm src/base/note.c

case_ "check-words wants an essay"
echo 'int x;' >src/base/bare.c
expect_exit 1 "$top/tools/check-words.sh"
expect_out '^./src/base/bare.c:1: .*essay'
rm src/base/bare.c

case_ "check-words finds a file that is too long"
tree src/base/long.c "$(seq -f 'int x%g;' 600)"
expect_exit 1 "$top/tools/check-words.sh"
expect_out 'long.c: 601 lines'
rm src/base/long.c

case_ "deps.sh is silent when nothing is missing"
expect_exit 0 "$top/tools/deps.sh" build
expect_no_out
expect_no_err

case_ "deps.sh --check names what is missing and the cure, and installs nothing"
mkdir bin
printf '#!/bin/sh\nexit 1\n' >bin/cc
printf '#!/bin/sh\ntouch "%s"\n' "$PWD/installed" >bin/apt-get
chmod +x bin/cc bin/apt-get
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" --check build
expect_err "^missing: .*libjansson-dev.*; run 'make deps' to install"
expect test ! -e installed

case_ "deps.sh says what it installs and why, and shows what apt-get said if it fails"
printf '#!/bin/sh\necho "apt-get $*"\ntest -e fine\n' >bin/apt-get
printf '#!/bin/sh\necho 0\n' >bin/id
chmod +x bin/id
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" build
expect_out '^  libjansson-dev +JSON'
expect_err '^apt-get .*install -y --no-install-recommends .*libjansson-dev'
expect_err 'apt-get failed'

case_ "deps.sh notices that an installation did not help"
touch fine
expect_exit 1 env PATH="$PWD/bin:$PATH" "$top/tools/deps.sh" build
expect_err 'still missing after the installation: .*libjansson-dev'

case_ "deps.sh without root and without sudo says who can help"
printf '#!/bin/sh\necho 1000\n' >bin/id
ln -s "$(command -v sh)" "$(command -v sed)" "$(command -v sort)" "$(command -v grep)" "$(command -v cut)" "$(command -v tr)" bin/
expect_exit 1 env PATH="$PWD/bin" sh "$top/tools/deps.sh" build
expect_err 'neither root nor sudo'

case_ "run.sh counts passes, failures and skips"
mkdir -p project/tests/cli
cp "$top/tests/run.sh" "$top/tests/lib.sh" project/tests/
mkdir project/build
cat >project/tests/cli/a.sh <<'END'
. tests/lib.sh
case_ one; expect true
case_ two; expect false
case_ three; skip "not today"
END
cat >project/tests/cli/b.sh <<'END'
. tests/lib.sh
case_ four; skip_all "not here"
END
expect_exit 1 env BUILD=build project/tests/run.sh cli
expect_out '^    not ok two: not true: false'
expect_out 'SKIP .*not here'
expect test "$(tail -n 1 "$OUT")" = "2 passed, 1 failed, 2 skipped"

case_ "run.sh stops a test that hangs"
echo 'sleep 60' >project/tests/cli/a.sh
rm project/tests/cli/b.sh
expect_exit 1 env BUILD=build LIMIT=1 project/tests/run.sh cli
expect_out 'stopped after 1 s'
expect test "$(tail -n 1 "$OUT")" = "0 passed, 1 failed, 0 skipped"
