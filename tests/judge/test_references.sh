#!/usr/bin/env bash
# The judge command on pictures kept here: drawn by scripts/shapes/scenes.py, one line each of picture, true caption
# and false caption. Also its exit statuses for what it cannot use.
set -u
here=$(cd "$(dirname "$0")" && pwd)
judge=${KILN_BUILD:-build/release}/tests/judge/judge
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() { # STATUS NAME ARGUMENT...
    local want=$1 name=$2 got; shift 2
    "$judge" "$@" >"$folder/out" 2>&1; got=$?
    if [ "$got" -eq "$want" ]; then echo "ok $name"; else echo "status $got, not $want:"; cat "$folder/out"; echo "FAIL $name"; fi
}

while IFS=$'\t' read -r picture yes no; do
    expect 0 "true-$picture" "$here/references/$picture" "$yes"
    expect 1 "false-$picture" "$here/references/$picture" "$no"
    printf '%s\t%s\n' "$here/references/$picture" "$yes" >>"$folder/list.tsv"
done <"$here/references/list.tsv"
expect 0 list --list "$folder/list.tsv"
printf '%s\t%s\n' "$here/references/0.png" "a red ring above a blue ring" >>"$folder/list.tsv"
expect 1 list-with-a-wrong-one --list "$folder/list.tsv"
expect 0 list-at-least --list "$folder/list.tsv" --at-least 6
: >"$folder/empty.tsv"
expect 1 empty-list --list "$folder/empty.tsv"
expect 2 no-such-picture "$folder/none.png" "a red circle"
head -c 100 "$here/references/0.png" >"$folder/cut.png"
expect 2 truncated-picture "$folder/cut.png" "a red circle"
expect 2 unknown-prompt "$here/references/0.png" "a dog"
expect 2 no-arguments
expect 2 bad-number --list "$folder/list.tsv" --at-least many
