#!/bin/bash
# rows.sh - sparse rows as a user meets them: 'yoke data synth', 'convert' and 'info', from one
# format to another and back, with files that are malformed, compressed, written by another program,
# or come through a pipe.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
private_cache

same() # FILE FILE: the same bytes
{
    cmp -s "$1" "$2" || fail "'$1' and '$2' differ"
}

hash_of() # FILE [OPTION...]: the hash of its rows, labels and values and all
{
    run yoke data info "$@" --json || fail "cannot describe '$1'"
    json xxh3
}

case_ "synth makes the same rows in every format, and says how well they can be predicted"
expect_exit 0 yoke data synth criteo --rows 3000 --features 50000 --seed 5 -o a.libsvm
expect_out '^a.libsvm: 3000 rows, 117000 non-zeros, [0-9]+ features, written as libsvm'
expect_out '^best log loss 0\.(39|4[0-4])'
expect_no_err
for file in a.tfrecord a.vw a.rows a.tsv a.tfrecord.gz; do
    expect_exit 0 yoke data synth criteo --rows 3000 --features 50000 --seed 5 -o "$file" --quiet
    expect_no_out
done
want=$(hash_of a.libsvm)
expect test ${#want} = 16
for file in a.tfrecord a.vw a.rows a.tfrecord.gz synth-criteo:3000:50000:5; do
    expect test "$(hash_of "$file")" = "$want"
done
expect test "$(hash_of synth-criteo:3000:50000:6)" != "$want"

case_ "synth tells a program, too"
expect_exit 0 yoke data synth criteo --rows 10 --to vw -o x --json
expect test "$(json rows)" = 10
expect test "$(json format)" = vw
expect test "$(json non_zeros)" = 390
expect grep -q '"best_log_loss": 0.[0-9]' "$OUT"
expect test "$(wc -l <x)" = 10

case_ "Criteo's text has 40 columns, and is hashed when it is read"
expect test "$(awk -F '\t' '{ print NF }' a.tsv | sort -u)" = 40
expect_exit 0 yoke data info a.tsv
expect_out '^a.tsv: criteo, sparse rows'
expect_out 'hashed +to 22 bits, from about [0-9,]+: [0-9.]+ % of them share a key'
expect_exit 0 yoke data info a.tsv --hash-bits 10
expect_out 'features +1,0[0-9]+ '
expect_out 'to 10 bits'

case_ "round and round: every conversion gives the bytes back"
expect_exit 0 yoke data convert a.libsvm b.tfrecord
expect_out '^b.tfrecord: 3000 rows, 117000 non-zeros, .* written as tfrecord'
expect_exit 0 yoke data convert b.tfrecord b.vw
expect_exit 0 yoke data convert b.vw b.rows
expect_exit 0 yoke data convert b.rows b.svm.gz
gzip -dc b.svm.gz >b.svm
same a.libsvm b.svm
same a.tfrecord b.tfrecord
same a.vw b.vw
expect_exit 0 yoke data convert b.rows b.tsv
same a.tsv b.tsv

case_ "info shows rows, non-zeros, features, labels and what hashing would cost"
printf '1 3:0.5 9:1\n-1\n0 9:-2 9:1 # twice\n+1 3:1 5:1 64:1\n' >small.txt
expect_exit 0 yoke data info small.txt
expect_out '^small.txt: libsvm, sparse rows, '
expect_out '^  rows +4$'
expect_out '^  non-zeros +7, 0 to 3 a row, 1.8 on average'
expect_out '^  empty +1 rows'
expect_out '^  repeated +1 rows'
expect_out '^  values +-2 to 1$'
expect_out '^  features +65 \(largest key \+ 1\), 4 of them occur'
expect_out '^  hashing .* at 22, '
expect_out '^  labels +2 are 1 \(50.00 %\), 2 are 0'
expect_exit 0 yoke data info small.txt --json
expect test "$(json rows)" = 4
expect test "$(json distinct_features)" = 4
expect test "$(json format)" = libsvm

case_ "standard input, standard output, lists and folders"
yoke data convert - - --to vw <small.txt >piped.vw 2>"$ERR" || fail "cannot convert through pipes"
expect_err '^-: 4 rows, '
expect test "$(sed -n 1p piped.vw)" = '1 | 3:0.5 9'
mkdir folder
cp small.txt folder/part-0
cp small.txt folder/part-1
expect_exit 0 yoke data info folder --json
expect test "$(json rows)" = 8
expect_exit 0 yoke data info small.txt,piped.vw --json
expect test "$(json rows)" = 8

case_ "a malformed row is named by file, line and what was expected"
printf '1 3:1\n1 x3\n0 4:1\n' >bad.libsvm
expect_exit 3 yoke data info bad.libsvm
expect_err "'bad.libsvm' line 2: expected .*, found 'x3'"
expect_err 'skip-bad'
printf '1 | a\n1 2.5 | b\n0 | c\n' >bad.vw
expect_exit 3 yoke data convert bad.vw out.libsvm
expect_err "'bad.vw' line 2: expected an importance of 1 .*, found '2.5'"
expect test ! -e out.libsvm
sed '3s/\t/ /' a.tsv >bad.tsv
expect_exit 3 yoke data info bad.tsv
expect_err "'bad.tsv' line 3: expected 40 columns .*, found 39"
cp a.tfrecord bad.tfrecord
printf '\377' | dd of=bad.tfrecord bs=1 seek=1000 conv=notrunc status=none
expect_exit 3 yoke data info bad.tfrecord
expect_err "'bad.tfrecord' byte [0-9]+: the checksum of a record's (data|length) is wrong"
head -c 5000 a.tfrecord >cut.tfrecord
expect_exit 3 yoke data info cut.tfrecord
expect_err "byte [0-9]+: expected a record, found the end of the file"

case_ "--skip-bad leaves them out, and counts"
for file in bad.libsvm bad.vw; do
    expect_exit 0 yoke data info "$file" --skip-bad 1 --json
    expect test "$(json rows)" = 2
    expect test "$(json bad)" = 1
    expect_err "left out 1 malformed rows of '$file'"
done
for file in bad.tsv bad.tfrecord; do
    expect_exit 0 yoke data info "$file" --skip-bad 1 --json
    expect test "$(json rows)" = 2999
    expect test "$(json bad)" = 1
done
printf '1 x\n1 y\n1 3:1\n' >worse.libsvm
expect_exit 3 yoke data info worse.libsvm --format libsvm --skip-bad 1
expect_err "line 2: "

case_ "what is no data is said to be none"
echo 'hello, world' >hello.txt
expect_exit 3 yoke data info hello.txt
expect_err 'no format yoke can read'
expect_err 'hint: .*--format'
expect_exit 3 yoke data convert hello.txt out.vw
expect_exit 3 yoke data convert nowhere.libsvm out.vw
expect_err 'nowhere.libsvm'
: >empty.libsvm
expect_exit 3 yoke data info empty.libsvm --format libsvm
expect test ! -e out.vw

case_ "rows that are not Criteo's are not written as such"
expect_exit 2 yoke data convert small.txt out.tsv
expect_err "row 1 of 'small.txt' does not fit Criteo's text"
expect test ! -e out.tsv

case_ "TFRecord files of another program: Python, from the definition"
if command -v python3 >/dev/null; then
    cat >write.py <<'END'
import struct, sys
def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return struct.pack('<I', (((c >> 15) | (c << 17)) + 0xa282ead8) & 0xffffffff)
def varint(v):
    out = b''
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])
def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data
def entry(name, kind, values):
    if kind == 3:
        body = field(1, b''.join(varint(v) for v in values))
    else:
        body = b''.join(b'\x0d' + struct.pack('<f', v) for v in values)  # not packed
    return field(1, field(1, name) + field(2, field(kind, body)))
def record(*entries):
    data = field(1, b''.join(entries))
    length = struct.pack('<Q', len(data))
    return length + crc(length) + data + crc(data)
out = open(sys.argv[1], 'wb')
for i in range(1000):
    out.write(record(entry(b'vals', 2, [0.5 * i, -1.25]),
                     entry(b'ids', 3, [i, 1000003 * i % 33762578]),
                     entry(b'click', 2 if i % 2 else 3, [i % 4 // 3])))
END
    python3 write.py python.tfrecord || fail "python3 failed"
    names=(--label-name click --index-name ids --value-name vals)
    expect_exit 0 yoke data convert python.tfrecord python.libsvm "${names[@]}"
    awk 'BEGIN { for (i = 0; i < 1000; i++)
        printf "%d %d:%.10g %d:-1.25\n", i % 4 == 3 ? 1 : -1, i, i / 2, 1000003 * i % 33762578 }' \
            >want.libsvm
    same python.libsvm want.libsvm
    expect_exit 3 yoke data info python.tfrecord
    expect_err "'python.tfrecord' byte 0: expected a feature 'label', "
    expect_err "found only 'vals', 'ids', 'click'"
else
    skip "needs python3"
fi

case_ "what cannot be meant is refused before anything is read"
expect_exit 2 yoke data convert a.libsvm
expect_exit 2 yoke data convert a.libsvm out
expect_err "does not say which format to write"
expect_exit 2 yoke data convert a.libsvm out --to npz
expect_exit 2 yoke data convert a.libsvm - --to vw --json
expect_err 'standard output'
expect_exit 2 yoke data convert a.libsvm out.vw --rows 5
expect_err "--rows means nothing to 'yoke data convert'"
expect_exit 2 yoke data convert a.libsvm out.vw more
expect_err "'more'"
expect_exit 2 yoke data convert a.libsvm - --to cache
expect_exit 2 yoke data synth
expect_exit 2 yoke data synth mnist --rows 5 -o x.vw
expect_exit 2 yoke data synth criteo -o x.vw
expect_err 'needs --rows'
expect_exit 2 yoke data synth criteo --rows 5
expect_err 'needs -o'
expect_exit 2 yoke data synth criteo --rows 5 --features 50 -o x.vw
expect_exit 2 yoke data info a.libsvm --hash-bits 40
expect_exit 2 yoke data info a.rows --hash-bits 20
expect_err "--hash-bits means nothing to 'a.rows'"
expect_exit 2 yoke data unknown
expect_err 'fetch, info, convert or synth'
expect test ! -e out.vw
expect test ! -e x.vw

case_ "a pipe whose writer comes late is waited for"
mkfifo pipe
{ sleep 0.2; cat small.txt >pipe; } &
expect_exit 0 yoke data info pipe --json
expect test "$(json rows)" = 4
wait

case_ "a name that JSON cannot say is refused, not left out"
cp small.txt $'caf\xe9.libsvm'
expect_exit 0 yoke data info $'caf\xe9.libsvm'
expect_exit 2 yoke data info $'caf\xe9.libsvm' --json
expect_err 'is not UTF-8'

case_ "--holdout of less than a row is said, and so is data that was piped in once"
expect_exit 2 yoke train logreg --data a.libsvm --holdout 0.0001 --run none
expect_err '--holdout 0.0001 of the 3000 rows of .* is less than one'
yoke train logreg --data - --run piped --quiet <a.libsvm >/dev/null 2>"$ERR" ||
    fail "cannot train on standard input"
expect_exit 2 yoke eval piped
expect_err 'the run took its data from standard input, which cannot be read again'
expect_err 'hint: --data FILE'
expect_exit 0 yoke eval piped --data a.libsvm
expect_exit 3 yoke train --resume piped --epochs 2
expect_err 'standard input can be read only once'
expect_exit 2 yoke data info - --format cache
expect_err "'standard input' cannot be a cache"

case_ "nothing is left but what was asked for"
expect test -z "$(find . "$XDG_CACHE_HOME" -name '*.tmp.*')"

case_ "rows without any entry are the data's fault, in every format"
printf '1\n0\n1\n' >none.libsvm
printf '1 |\n-1 |\n' >none.vw
printf '1%s\n0%s\n' "$(printf '\t%.0s' {1..39})" "$(printf '\t%.0s' {1..39})" >none.tsv
for rows in libsvm:none.libsvm vw:none.vw criteo:none.tsv; do
    for args in "" "--workers 2 --mode async"; do
        # shellcheck disable=SC2086
        expect_error 3 "no row of '${rows#*:}' has any entry" \
            yoke train logreg --data "${rows#*:}" --format "${rows%:*}" --batch 1 $args
        expect_err '^hint: .*--features N$'
    done
done
expect_no_runs
expect_exit 0 yoke train logreg --data none.libsvm --format libsvm --batch 1 --features 5 \
    --run room --quiet

case_ "there is one limit to features"
expect_error 2 "4294967001" yoke train logreg --data none.libsvm --format libsvm --batch 1 \
    --features 4294967002
expect_error 3 "an index up to 4294967000" yoke data info <(echo '1 4294967001:1') --format libsvm
