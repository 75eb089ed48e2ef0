#!/bin/sh
# What kcat does while record.py listens. Argument: the recorder's port.
#   record.py --listen PORT --broker BROKER --client kcat-1.7.1 -- ./kcat.sh PORT
set -eu
broker=127.0.0.1:$1
kcat -b "$broker" -L >/dev/null
for codec in none gzip snappy lz4 zstd; do
    printf 'key:value %s\nkey:\n' "$codec" | kcat -b "$broker" -t golden-kcat -P -K: -z "$codec" -H trace=1 -H trace=2
done
printf 'idempotent\n' | kcat -b "$broker" -t golden-kcat -P -X enable.idempotence=true
kcat -b "$broker" -t golden-kcat -C -o beginning -e -q >/dev/null
kcat -b "$broker" -Q -t golden-kcat:0:-1 -t golden-kcat:0:0 >/dev/null
kcat -b "$broker" -L -t golden-kcat >/dev/null
timeout 15 kcat -b "$broker" -G golden-group golden-kcat -o beginning -e -q >/dev/null
