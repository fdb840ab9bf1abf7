#!/usr/bin/env bash
# The shipped model draws what prompts it never saw in training ask for: 24 of them through `kiln run`, judged by pixels.
# How many must be right: docs/models/shapes.md gives the score of the shipped weights on these prompts, less three,
# since another processor rounds differently and a borderline picture may fall on either side.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export AT_LEAST=21
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if bash "$here/measure.sh" "$here/prompts-24.txt" "$folder"; then echo "ok prompts-24"; else echo "FAIL prompts-24"; fi
