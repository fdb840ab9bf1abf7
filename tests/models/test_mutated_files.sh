# test_mutated_files.sh - files whose headers are sound and whose tensors make no sense, given to the loaders of LoRAs, controls, embeddings
# and the like: each file is taken, or refused by a sentence that names it; nothing crashes; `kiln inspect` says something of each.
# KILN_MUTATIONS: how many of each kind (default 40).
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
models=workflows/models
n=${KILN_MUTATIONS:-40}

# mutated FOLDER FILE WORKFLOW SETTING [OPTION...]: variants of FILE are loaded one after the other through SETTING of the workflow
mutated() {
    local folder=$1 file=$2 workflow=$3 setting=$4 name got; shift 4
    name=$(basename "$file" .safetensors)
    mkdir -p "$work/models/$folder" && python3 tests/models/mutate_header.py "$file" "$work/models/$folder/$name" "$n" || { bad "${name}_variants" "none"; return; }
    (cd "$work/models/$folder" && ls "$name"-*.safetensors) >"$work/rows"
    [ -z "$into" ] || sed -i "s/^/$into/; s/\.safetensors$//" "$work/rows"
    rm -rf "$work/out"
    "$kiln" run "$workflow" --models "$work/models" "$@" --over "$setting=@$work/rows" --out "$work/out" --no-cache --keep-going -q >"$work/stdout" 2>"$work/log"; got=$?
    [ $got -le 3 ] && [ "$(wc -l <"$work/out/manifest.jsonl")" = "$n" ]; verdict "${name}_nothing_crashes" $?
    python3 - "$work/out/manifest.jsonl" "$name" >>"$work/log" 2>&1 <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
failed = [r for r in rows if r["status"] != "done"]
print(f"{len(failed)} of {len(rows)} refused")
for r in failed:
    assert sys.argv[2] + "-" in r["error"], r["error"]
assert 0 < len(failed), "nothing was refused"
PY
    verdict "${name}_what_is_refused_is_named" $?
    got=0
    for variant in "$work/models/$folder/$name"-00?.safetensors; do
        "$kiln" inspect "$variant" >"$work/said" 2>"$work/log"; [ $? -le 2 ] && [ -s "$work/said" ] || got=1
    done
    verdict "${name}_inspected" $got
}

into=
mutated loras $models/loras/shapes-night.safetensors workflows/lora.yaml night.lora_name --set steps=1
mutated loras $models/loras/shapes-sand-lokr.safetensors workflows/lora.yaml night.lora_name --set steps=1
mutated controlnet $models/controlnet/shapes-colours.safetensors workflows/two-controlnets.yaml colour_net.control_net_name --set steps=1
mutated clip_vision $models/clip_vision/shapes-vision.safetensors workflows/ip-adapter.yaml vision.clip_name --set steps=1
mutated ipadapter $models/ipadapter/shapes-ip-adapter.safetensors workflows/ip-adapter.yaml adapter.ipadapter_file --set steps=1
mutated upscale_models $models/upscale_models/shapes-x2.safetensors workflows/upscale.yaml upscaler --set sampler.steps=1
into="a embedding:"
mutated embeddings $models/embeddings/jewel.safetensors workflows/embedding.yaml prompt --set steps=1
exit $status
