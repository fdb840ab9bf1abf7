#!/usr/bin/env bash
# docs/models/shapes-gemma.md's training command in an empty folder, for three seconds instead of an hour: it leaves the files that ship, with the same tokenizer and
# settings, and a model that kiln opens; a second run goes on. Needs torch and transformers (KILN_PYTHON names the Python that has them).
set -u
cd "$KILN_ROOT" || exit 2
python=${KILN_PYTHON:-python3} kiln="$PWD/$KILN_BUILD/kiln" shipped=workflows/models/text_diffusion/shapes-gemma
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else cat "$work/log" 2>/dev/null; echo "FAIL $1"; status=1; fi; }
names="the_command_trains the_same_files the_same_settings_and_tokenizer kiln_knows_the_model a_second_run_goes_on"
if ! "$python" -c 'import torch, safetensors, numpy, PIL; from transformers import DiffusionGemmaForBlockDiffusion' 2>/dev/null; then
    for n in $names; do echo "skip $n: $python has no torch with transformers 5.11"; done
    exit 0
fi
line=$(sed -n 's/^    python3 \(scripts\/train_shapes_gemma.py .*\)$/\1/p' docs/models/shapes-gemma.md)
line=${line/build\/shapes-gemma/$work\/state} line=${line/$shipped/$work\/out}
train() { eval "'$python' $line --minutes $1" >"$work/log" 2>&1; }
steps() { "$python" -c 'import sys, torch; print(torch.load(sys.argv[1] + "/state/state.pt", weights_only=True)["step"])' "$work" 2>>"$work/log"; }

[ -n "$line" ] && train 0.05; verdict the_command_trains $?
[ "$(ls "$work/out" 2>&1)" = "$(ls $shipped)" ]; verdict the_same_files $?
for f in "$shipped"/*.json "$shipped"/*.jinja; do cmp "$f" "$work/out/$(basename "$f")" >>"$work/log" 2>&1 || break; done; verdict the_same_settings_and_tokenizer $?
"$kiln" inspect "$work/out" >"$work/log" 2>&1 && grep -qF '(family diffusion-gemma), complete' "$work/log"; verdict kiln_knows_the_model $?
first=$(steps); train 0.1 && [ "${first:-0}" -ge 1 ] && [ "$(steps)" -gt "$first" ]; verdict a_second_run_goes_on $?
exit $status
